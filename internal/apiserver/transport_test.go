package apiserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/rehearse-k8s/rehearse/internal/store"
)

func roundTrip(t *testing.T, ctx context.Context, url string, h http.HandlerFunc) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return (&RoundTripper{Handler: h, User: &user.DefaultInfo{Name: "me"}}).RoundTrip(r)
}

func TestAnswerWithAnEnd(t *testing.T) {
	resp, err := roundTrip(t, t.Context(), "http://x/api/v1/pods?limit=5", func(w http.ResponseWriter, r *http.Request) {
		if r.RequestURI != "/api/v1/pods?limit=5" || r.Host != "x" || r.Body == nil {
			t.Errorf("request URI %q, host %q, body %v", r.RequestURI, r.Host, r.Body)
		}
		if u, ok := r.Context().Value(identityKey{}).(user.Info); !ok || u.GetName() != "me" {
			t.Error("the identity did not arrive")
		}
		w.Header().Set("X-Early", "1")
		w.WriteHeader(http.StatusTeapot)
		w.Header().Set("X-Late", "1") // after the status: over a socket it would not be sent
		_, _ = io.WriteString(w, "tea")
	})
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusTeapot || string(body) != "tea" || resp.Header.Get("X-Early") != "1" || resp.Header.Get("X-Late") != "" {
		t.Errorf("%d %q %v", resp.StatusCode, body, resp.Header)
	}
}

// TestServerContext: the server's context has the client's end and deadline and the values of the store, but no other value.
func TestServerContext(t *testing.T) {
	type key struct{}
	deadline := time.Now().Add(time.Hour)
	ctx, cancel := context.WithDeadline(store.WithRun(context.WithValue(t.Context(), key{}, "client"), "run"), deadline)
	defer cancel()
	for _, url := range []string{"http://x/api", "http://x/api?watch=1"} {
		resp, err := roundTrip(t, ctx, url, func(_ http.ResponseWriter, r *http.Request) {
			server := r.Context()
			if v := server.Value(key{}); v != nil {
				t.Errorf("%s: the value %v of the client", url, v)
			}
			if run := store.RunFrom(server); run != "run" {
				t.Errorf("%s: run %q", url, run)
			}
			if got, ok := server.Deadline(); !ok || !got.Equal(deadline) {
				t.Errorf("%s: deadline %v, %t", url, got, ok)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadAll(resp.Body)
	}
}

// TestServerContextEnds: the server's context ends with the error of the client's context, also if its deadline passes. A client that reads a stream receives this error, or the end of
// the stream if the handler was quicker.
func TestServerContextEnds(t *testing.T) {
	for want, end := range map[error]func(context.CancelFunc){
		context.Canceled:         func(cancel context.CancelFunc) { cancel() },
		context.DeadlineExceeded: func(context.CancelFunc) {}, // the virtual time passes when all wait
	} {
		for url, streamed := range map[string]bool{"http://x/api": false, "http://x/api?watch=1": true} {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var got error
				resp, err := roundTrip(t, ctx, url, func(w http.ResponseWriter, r *http.Request) {
					w.(http.Flusher).Flush()
					child, stop := context.WithCancel(r.Context())
					defer stop()
					if !streamed {
						end(cancel)
					}
					<-child.Done()
					got = child.Err()
				})
				if streamed && err == nil {
					synctest.Wait()
					end(cancel)
					if _, err = io.ReadAll(resp.Body); err == nil {
						err = want
					}
				}
				synctest.Wait()
				if !errors.Is(err, want) || !errors.Is(got, want) {
					t.Errorf("%s: error %v in the client and %v in the server, want %v", url, err, got, want)
				}
			})
		}
	}
}

// TestClientContext: package context registers children with the client's context, instead of starting a goroutine for each.
func TestClientContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var c any = clientContext{ctx, context.Background()}
	with, ok := c.(interface {
		AfterFunc(f func()) (stop func() bool)
	})
	if !ok {
		t.Fatal("package context does not find the method AfterFunc")
	}
	called := make(chan struct{})
	with.AfterFunc(func() { close(called) })
	cancel()
	<-called
}

func TestAbortedAnswerIsAnError(t *testing.T) {
	abort := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		panic(http.ErrAbortHandler)
	}
	if _, err := roundTrip(t, t.Context(), "http://x/api", abort); !errors.Is(err, errAborted) {
		t.Errorf("error %v", err)
	}
	resp, err := roundTrip(t, t.Context(), "http://x/api?watch=true", abort)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(resp.Body); string(body) != "half" || !errors.Is(err, errAborted) {
		t.Errorf("read %q, %v", body, err)
	}
}

// TestStream: a watch delivers frames as they are written, and either side can end it. The bubble fails if
// goroutines remain.
func TestStream(t *testing.T) {
	t.Run("the handler ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			resp, err := roundTrip(t, t.Context(), "http://x/api?watch=1", func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "one ")
				w.(http.Flusher).Flush()
				_, _ = io.WriteString(w, "two")
			})
			if err != nil {
				t.Fatal(err)
			}
			if body, err := io.ReadAll(resp.Body); string(body) != "one two" || err != nil {
				t.Errorf("read %q, %v", body, err)
			}
		})
	})
	for name, end := range map[string]func(context.CancelFunc, io.Closer){
		"the client closes":    func(_ context.CancelFunc, c io.Closer) { _ = c.Close() },
		"the client's context": func(cancel context.CancelFunc, _ io.Closer) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var ended bool
				resp, err := roundTrip(t, ctx, "http://x/api?watch=1", func(w http.ResponseWriter, r *http.Request) {
					w.(http.Flusher).Flush()
					<-r.Context().Done()
					ended = true
				})
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				end(cancel, resp.Body)
				synctest.Wait()
				if !ended {
					t.Error("the handler does not know that its client has gone")
				}
				if _, err := resp.Body.Read(make([]byte, 1)); err == nil {
					t.Error("a read after the end succeeded")
				}
			})
		})
	}
}

// TestSlowReaderBlocksWriter: a watch whose client does not read does not fill the memory.
func TestSlowReaderBlocksWriter(t *testing.T) {
	const frames = 64
	frame := bytes.Repeat([]byte("x"), maxBuffered/8)
	wrote := make(chan int, frames)
	resp, err := roundTrip(t, t.Context(), "http://x/api?watch=1", func(w http.ResponseWriter, _ *http.Request) {
		for i := range frames {
			_, _ = w.Write(frame)
			wrote <- i
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, len(frame))
	var read int
	for read < frames*len(frame) {
		n, err := resp.Body.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		read += n
		if ahead := len(wrote)*len(frame) - read; ahead > maxBuffered+len(frame) {
			t.Fatalf("the writer is %d bytes ahead", ahead)
		}
	}
}

// TestReaderBehindWriter: a watch whose client is always a little behind does not keep what it has read.
func TestReaderBehindWriter(t *testing.T) {
	w := newStreamedResponse(t.Context())
	frame := bytes.Repeat([]byte("x"), 1<<10)
	buf := make([]byte, len(frame))
	write := func() {
		if _, err := w.Write(frame); err != nil {
			t.Fatal(err)
		}
	}
	write()
	for range 100_000 {
		write()
		if n, err := w.Read(buf); n != len(frame) || err != nil {
			t.Fatalf("read %d bytes: %v", n, err)
		}
		if cap(w.buf) > 1<<16 {
			t.Fatalf("the buffer has %d bytes for %d that wait", cap(w.buf), len(w.buf)-w.off)
		}
	}
}

func TestLocalPort(t *testing.T) {
	for _, c := range []struct {
		value string
		port  int32
		want  int
		err   string
	}{
		{"9443", 443, 9443, ""},
		{"443=9443,8443=9444", 8443, 9444, ""},
		{"443=9443, 8443=9444", 8443, 9444, ""},
		{"443=9443", 8443, 0, "no entry for port 8443"},
		{"https", 443, 0, `"https" is not a port`},
		{"443=70000", 443, 0, `"70000" is not a port`},
		{"", 443, 0, `"" is not a port`},
	} {
		got, err := localPort(c.value, c.port)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("localPort(%q, %d) = %d, %v; want %d, %q", c.value, c.port, got, err, c.want, c.err)
		}
	}
}

// TestShortStream: an answer that is complete before the client reads it is not lost.
func TestShortStream(t *testing.T) {
	for range 100 { // it must not depend on the order of two ready cases of a select
		w := newStreamedResponse(t.Context())
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "no such pod")
		w.finish(true)
		if err := w.awaitStart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(w); err != nil || string(body) != "no such pod" {
			t.Fatalf("%q, %v", body, err)
		}
	}
}
