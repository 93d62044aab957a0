package kubeletapi

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
)

// untilLost returns a context that ends when the client closes the connection of a request, also after a protocol switch: the context of
// a request does not end then. The handler must use the returned writer, and must call the function when it is done.
func untilLost(w http.ResponseWriter, r *http.Request) (context.Context, http.ResponseWriter, func()) {
	ctx, cancel := context.WithCancel(r.Context())
	return ctx, &watchedResponse{ResponseWriter: w, lost: cancel}, cancel
}

// watchedResponse calls lost when a connection that was taken over fails.
type watchedResponse struct {
	http.ResponseWriter
	lost func()
}

// Unwrap implements the interface of http.ResponseController.
func (w *watchedResponse) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack implements http.Hijacker.
func (w *watchedResponse) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	early, err := buffered.Reader.Peek(buffered.Reader.Buffered())
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	watched := newWatchedConn(conn, w.lost)
	var from io.Reader = watched
	if len(early) > 0 {
		from = io.MultiReader(bytes.NewReader(bytes.Clone(early)), watched)
	}
	return watched, bufio.NewReadWriter(bufio.NewReader(from), buffered.Writer), nil
}

const (
	// readSize is the size of one read of a watched connection.
	readSize = 16 << 10
	// readAhead is the number of reads that wait for the handler.
	readAhead = 4
)

// watchedConn reads ahead of its handler, because a handler that has received the message that closes a SPDY connection reads no
// more, and would not notice that the client has left.
type watchedConn struct {
	net.Conn
	lost   func()
	chunks chan []byte
	rest   []byte
	err    error // set before chunks is closed
	once   sync.Once
	closed chan struct{}
}

func newWatchedConn(conn net.Conn, lost func()) *watchedConn {
	c := &watchedConn{Conn: conn, lost: lost, chunks: make(chan []byte, readAhead), closed: make(chan struct{})}
	go c.read() // ends when either side closes the connection
	return c
}

// read reads until the end of the connection.
func (c *watchedConn) read() {
	defer close(c.chunks)
	for {
		chunk := make([]byte, readSize)
		n, err := c.Conn.Read(chunk)
		if n > 0 {
			select {
			case c.chunks <- chunk[:n]:
			case <-c.closed:
			}
		}
		if err != nil {
			c.err = err
			c.lost()
			return
		}
	}
}

// Read implements net.Conn.
func (c *watchedConn) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		chunk, ok := <-c.chunks
		if !ok {
			return 0, c.err
		}
		c.rest = chunk
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// Close implements net.Conn.
func (c *watchedConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
