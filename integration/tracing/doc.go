// Package tracing tests the guard's spans together with those of the Temporal SDK's OpenTelemetry
// interceptor, on a real server.
package tracing
