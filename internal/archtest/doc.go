// Package archtest checks the architecture: a test reads `go list -deps -json ./...` and the sources, and fails with the
// reason.
//
// It reports imports that go up a floor, directly or through other packages; a clock, a client, a goroutine or a file in a
// package that must not use one; long files and short package comments; declarations that hide a predeclared identifier;
// exported API that mentions a type of internal/...; and words that docs/reference/glossary.md retires.
//
// The table of floors is in floors.go. A new package must be entered there: its place is a decision. Only what is built
// into the packages is checked; their tests may import what they need, and only the words of tests are checked.
//
// It is not a linter for style; gofmt, go vet and staticcheck are. No package imports it.
//
// Floor: outside the layers, tests only.
package archtest
