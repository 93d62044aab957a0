// Package archtest keeps the house in order: a test that reads `go list -json ./...` and fails, with the reason, when
// an import goes up a floor, when a pure package reaches for a clock or a client, or when a file outgrows its reader.
//
// The table of floors is in floors.go, and a new package has to be entered there: where it stands is a decision, not an
// accident. Only what is built into the packages is judged; what their tests import is their own affair.
//
// It is not a linter for style; gofmt, go vet and staticcheck do that. Nothing imports it.
//
// Floor: beside the house, tests only.
package archtest
