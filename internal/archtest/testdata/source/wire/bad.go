// Package wire is a bad example.
// It has a comment of the right length,
// which shows that only
// the door that it opens
// is held against it.
package wire

import "net/http"

func bad(h http.Handler, time interface{ Now() }) error {
	time.Now()
	return http.ListenAndServe(":80", h)
}
