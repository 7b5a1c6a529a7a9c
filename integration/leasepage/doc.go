// Package leasepage tests the page of [telemetry.NewLeasesHandler] in a headless Chromium, and
// takes its picture:
//
//	go -C integration test ./leasepage -run Picture -update
package leasepage
