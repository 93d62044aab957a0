// Package browser looks at the HTML report in a real Chromium: that it opens at the
// broken promise, that the keys work, that nothing is said on the console and nothing
// is asked of a network, and that no element lies over another, narrow and wide, light
// and dark.
//
// It is a module of its own, so that what drives a browser reaches nobody who imports
// rehearse, and its tests have the build tag browser, because not every machine has
// one:
//
//	go test -tags browser ./...
//
// With -images=DIR the tests leave screenshots there, which the documentation shows.
package browser
