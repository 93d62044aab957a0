// Package browser tests the HTML report in a real Chromium: that it opens at the violated invariant, that the
// keys work, that there are neither console messages nor network requests, and that no element covers another,
// on narrow and wide screens, light and dark.
//
// It is a separate module, so that the browser driver is no dependency of users of rehearse, and its tests
// have the build tag browser, because not every machine has a browser:
//
//	go test -tags browser ./...
//	go test -tags browser ./...
//
// With -images=DIR the tests save screenshots there, which the documentation shows.
package browser
