// Package standalone tests activities that no workflow has started, on a Temporal server that has them:
// `make standalone`.
package standalone
