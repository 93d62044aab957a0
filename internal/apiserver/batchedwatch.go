package apiserver

import (
	"net/http"
	"strings"
	"sync"
)

// batchBytes is the size of the events of a watch that are written to the connection together.
const batchBytes = 64 << 10

// batches are buffers that no watch uses: a watch that waits for events needs none.
var batches = sync.Pool{New: func() any { return new([]byte) }}

// withBatchedWatches writes the events of a watch together if several wait. Upstream's handler writes each event as soon as it is encoded, and flushes when no
// other event waits. net/http has a buffer of 4 KB, two pods; beyond that, each write waits for the goroutine of the HTTP/2 connection, which
// writes one frame, a TLS record and a packet. On a busy machine, that goroutine waits for a processor for milliseconds, so a
// watch of pods lagged behind the writes, by more than the watch cache keeps in a cluster of 300,000 pods (docs/design/performance.md).
func withBatchedWatches(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		flusher, ok := w.(http.Flusher)
		if !ok || !isWatch(r) || strings.Contains(r.URL.Path, "/proxy") || r.Header.Get("Upgrade") != "" {
			next.ServeHTTP(w, r)
			return
		}
		batch := &batchedResponse{ResponseWriter: w, flusher: flusher}
		next.ServeHTTP(batch, r)
		batch.send()
	})
}

// batchedResponse collects what a handler writes until the handler flushes it, or until it is large.
type batchedResponse struct {
	http.ResponseWriter
	flusher http.Flusher
	waiting *[]byte // from batches; nil: nothing waits
	err     error   // of the last write; later ones fail too
}

// Write implements http.ResponseWriter. The error may be that of an earlier write.
func (w *batchedResponse) Write(p []byte) (int, error) {
	if w.waiting != nil && len(*w.waiting)+len(p) > batchBytes {
		w.send()
	}
	if w.err != nil {
		return 0, w.err
	}
	if len(p) > batchBytes {
		var n int
		n, w.err = w.ResponseWriter.Write(p)
		return n, w.err
	}
	if w.waiting == nil {
		w.waiting = batches.Get().(*[]byte)
	}
	*w.waiting = append(*w.waiting, p...)
	return len(p), nil
}

// Flush implements http.Flusher.
func (w *batchedResponse) Flush() {
	w.send()
	w.flusher.Flush()
}

// send writes what waits.
func (w *batchedResponse) send() {
	if w.waiting == nil {
		return
	}
	if w.err == nil {
		_, w.err = w.ResponseWriter.Write(*w.waiting)
	}
	if w.err == nil { // after an error, the connection may still read the buffer
		*w.waiting = (*w.waiting)[:0]
		batches.Put(w.waiting)
	}
	w.waiting = nil
}

// CloseNotify implements http.CloseNotifier, which upstream's writers require and do not use: a watch ends with the context of its request.
func (w *batchedResponse) CloseNotify() <-chan bool { return nil }

// Unwrap returns the writer of the connection, for upstream's responsewriter.GetOriginal and http.ResponseController.
func (w *batchedResponse) Unwrap() http.ResponseWriter { return w.ResponseWriter }
