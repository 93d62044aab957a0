// Package html draws a report as one page: the lanes of belief. From left to right, these are the user, the
// state of the API, and for each controller the gap with its deliveries, its cache and its requests, then the
// kubelet. Time runs down.
//
// The page is self-contained: it opens from a disk, sends no network request (its own content security policy
// forbids it), is readable without its script, prints, and is never longer than [Limit]. It opens at the
// violated invariant.
//
// The package derives nothing about runs: it draws report.Run and report.Picture.
//
// Floor: F3, like package report.
package html
