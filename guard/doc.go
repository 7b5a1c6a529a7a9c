// Package guard runs an effect once per key.
package guard
