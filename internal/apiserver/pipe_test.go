package apiserver

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// TestPipe: an in-memory connection has buffers, deadlines that do not end it, and an end.
func TestPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipeListener()
		accepted := make(chan net.Conn)
		go func() {
			c, _ := l.Accept()
			accepted <- c
		}()
		a, err := l.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b := <-accepted

		// Both sides write before they read.
		for _, c := range []net.Conn{a, b} {
			if _, err := c.Write([]byte("first")); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []net.Conn{a, b} {
			if got := make([]byte, 5); true {
				if _, err := io.ReadFull(c, got); err != nil || string(got) != "first" {
					t.Errorf("got %q, %v", got, err)
				}
			}
		}

		// A deadline ends a read, and the connection still works.
		begin := time.Now()
		if err := a.SetReadDeadline(begin.Add(3 * time.Second)); err != nil {
			t.Fatal(err)
		}
		var temporary net.Error
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &temporary) || !temporary.Timeout() {
			t.Errorf("got %v", err)
		}
		if took := time.Since(begin); took != 3*time.Second {
			t.Errorf("the deadline passed after %v", took)
		}
		if err := a.SetDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}

		// A write of more than the buffer waits for the reader.
		large := bytes.Repeat([]byte("x"), 3*pipeBuffer)
		done := make(chan error)
		go func() {
			_, err := b.Write(large)
			_ = b.Close()
			done <- err
		}()
		synctest.Wait()
		select {
		case err := <-done:
			t.Errorf("the write ended without a reader: %v", err)
		default:
		}
		go func() {
			got, err := io.ReadAll(a)
			if err == nil && !bytes.Equal(got, large) {
				err = errors.New("other data")
			}
			done <- err
		}()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if _, err := a.Write([]byte("x")); err == nil {
			t.Error("a write to a closed end succeeds")
		}
		if _, err := b.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a read of a closed end: %v", err)
		}

		// A write that waits ends with its deadline, and the listener with Close.
		c, d := newPipe()
		if err := c.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Write(large); n != pipeBuffer || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %d, %v", n, err)
		}
		_ = c.Close()
		if got, err := io.ReadAll(d); err != nil || len(got) != pipeBuffer {
			t.Errorf("after the end: got %d bytes, %v", len(got), err)
		}
		_ = l.Close()
		if _, err := l.dial(t.Context()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a closed listener: %v", err)
		}
	})
}
