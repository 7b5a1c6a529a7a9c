// Package otlp tests what leaves a process: the guard's spans as a collector gets them over OTLP/HTTP, from
// processes of their own on a real Redis, some of which are killed. It reads the exported bytes and no
// object of the SDK, and looks for secrets in them, in the log lines and in the scrapes of /metrics.
//
// The test binary is the process that makes the calls, too, in the role of a child.
package otlp
