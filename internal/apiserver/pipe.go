package apiserver

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipeBuffer limits the bytes that wait in one direction of a pipe.
const pipeBuffer = 64 << 10

// pipeListener accepts in-memory connections. Unlike those of net.Pipe they have buffers, so that both sides may write first, and unlike
// those of bufconn a passed deadline is a temporary error, as TLS requires.
type pipeListener struct {
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{accept: make(chan net.Conn), closed: make(chan struct{})}
}

// dial connects to the listener.
func (l *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	client, server := newPipe()
	select {
	case l.accept <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accept:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "in-process" }

// pipeEnd is one end of an in-memory connection.
type pipeEnd struct{ in, out *pipeDirection }

func newPipe() (*pipeEnd, *pipeEnd) {
	a, b := newPipeDirection(), newPipeDirection()
	return &pipeEnd{a, b}, &pipeEnd{b, a}
}

// Read implements net.Conn.
func (p *pipeEnd) Read(b []byte) (int, error) { return p.in.read(b) }

// Write implements net.Conn.
func (p *pipeEnd) Write(b []byte) (int, error) { return p.out.write(b) }

// Close implements net.Conn. The other end still reads what was written.
func (p *pipeEnd) Close() error {
	p.out.closeWriter()
	p.in.closeReader()
	return nil
}

// LocalAddr implements net.Conn.
func (p *pipeEnd) LocalAddr() net.Addr { return pipeAddr{} }

// RemoteAddr implements net.Conn.
func (p *pipeEnd) RemoteAddr() net.Addr { return pipeAddr{} }

// SetDeadline implements net.Conn.
func (p *pipeEnd) SetDeadline(t time.Time) error {
	p.in.setDeadline(&p.in.readBy, t)
	p.out.setDeadline(&p.out.writeBy, t)
	return nil
}

// SetReadDeadline implements net.Conn.
func (p *pipeEnd) SetReadDeadline(t time.Time) error {
	p.in.setDeadline(&p.in.readBy, t)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (p *pipeEnd) SetWriteDeadline(t time.Time) error {
	p.out.setDeadline(&p.out.writeBy, t)
	return nil
}

// pipeDirection is one direction of a connection.
type pipeDirection struct {
	mu              sync.Mutex
	changed         sync.Cond
	data            []byte
	written         bool // the writer is closed
	unread          bool // the reader is closed
	readBy, writeBy deadline
}

// deadline is a point in time after which an operation fails.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func newPipeDirection() *pipeDirection {
	d := &pipeDirection{}
	d.changed.L = &d.mu
	return d
}

func (d *pipeDirection) read(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		switch {
		case d.unread:
			return 0, net.ErrClosed
		case d.readBy.passed():
			return 0, os.ErrDeadlineExceeded
		case len(d.data) > 0:
			n := copy(b, d.data)
			if d.data = d.data[n:]; len(d.data) == 0 {
				d.data = nil // an idle connection needs no buffer
			}
			d.changed.Broadcast()
			return n, nil
		case d.written:
			return 0, io.EOF
		case len(b) == 0:
			return 0, nil
		}
		d.changed.Wait()
	}
}

func (d *pipeDirection) write(b []byte) (n int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		switch {
		case d.written:
			return n, net.ErrClosed
		case d.unread:
			return n, io.ErrClosedPipe
		case d.writeBy.passed():
			return n, os.ErrDeadlineExceeded
		}
		if part := b[n:min(len(b), n+pipeBuffer-len(d.data))]; len(part) > 0 {
			d.data = append(d.data, part...)
			n += len(part)
			d.changed.Broadcast()
		}
		if n == len(b) {
			return n, nil
		}
		d.changed.Wait()
	}
}

func (d *pipeDirection) closeWriter() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.written = true
	d.changed.Broadcast()
}

func (d *pipeDirection) closeReader() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unread, d.data = true, nil
	d.changed.Broadcast()
}

// setDeadline sets a deadline, and wakes operations that wait when it passes. The zero time means no deadline.
func (d *pipeDirection) setDeadline(which *deadline, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if which.timer != nil {
		which.timer.Stop()
		which.timer = nil
	}
	if which.at = at; !at.IsZero() {
		which.timer = time.AfterFunc(time.Until(at), func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.changed.Broadcast()
		})
	}
	d.changed.Broadcast()
}
