package wire_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/rehearse-k8s/rehearse/internal/wire"
)

func someStream(t testing.TB, mediaType string) []byte {
	return stream(t, mediaType,
		watch.Event{Type: watch.Added, Object: pod("a", uidA, "5")},
		watch.Event{Type: watch.Bookmark, Object: bookmark("6", true)},
		watch.Event{Type: watch.Modified, Object: pod("b", uidB, "7")},
	)
}

func TestSplitterAnyCut(t *testing.T) {
	for _, mediaType := range []string{jsonType, protobufType} {
		whole := someStream(t, mediaType)
		want := split(t, mediaType, whole)
		if len(want) != 3 {
			t.Fatalf("%s: %d frames", mediaType, len(want))
		}
		for size := 1; size < 70; size++ {
			s, err := wire.NewSplitter(mediaType)
			if err != nil {
				t.Fatal(err)
			}
			var got [][]byte
			for rest := whole; len(rest) > 0; {
				n := min(size, len(rest))
				if _, err := s.Write(rest[:n]); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
				for f, ok := s.Next(); ok; f, ok = s.Next() {
					got = append(got, f)
				}
			}
			if !same(want, got) || s.Unfinished() != 0 {
				t.Fatalf("%s in pieces of %d: other frames", mediaType, size)
			}
		}
	}
}

func same(a, b [][]byte) bool {
	return len(a) == len(b) && bytes.Equal(bytes.Join(a, []byte{0xff, 0}), bytes.Join(b, []byte{0xff, 0}))
}

func TestSplitterJSON(t *testing.T) {
	got := split(t, "", []byte(" {}{\"a\":\"}\\\"{\"}\r\n\n[")[:len(" {}{\"a\":\"}\\\"{\"}\r\n\n")])
	want := [][]byte{[]byte("{}\n"), []byte("{\"a\":\"}\\\"{\"}\n")}
	if !same(want, got) {
		t.Errorf("got %q", got)
	}
}

func TestSplitterRejects(t *testing.T) {
	huge := binary.BigEndian.AppendUint32(nil, wire.MaxFrame+1)
	for _, tc := range []struct {
		contentType string
		stream      []byte
		want        string
	}{
		{jsonType, []byte("{}\nupgrade"), `begins with 'u': want {`},
		{protoStream, huge, "67108865 bytes: the limit is 67108864"},
		{protoStream, []byte(`{"type":"ADDED"}`), "does not have its content type"},
	} {
		s, err := wire.NewSplitter(tc.contentType)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Write(tc.stream)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: got %v, want %q in it", tc.stream, err, tc.want)
		}
		if _, again := s.Write([]byte("{}")); !errors.Is(again, err) {
			t.Errorf("%q: after the error came %v", tc.stream, again)
		}
	}
	if _, err := wire.NewSplitter("text/plain"); err == nil || !strings.Contains(err.Error(), "CBOR") {
		t.Errorf("text: %v", err)
	}
}

func TestSplitterLimit(t *testing.T) {
	s, err := wire.NewSplitter(jsonType)
	if err != nil {
		t.Fatal(err)
	}
	piece := bytes.Repeat([]byte("x"), 16<<20)
	_, err = s.Write([]byte(`{"a":"`))
	for range 5 {
		if err != nil {
			break
		}
		_, err = s.Write(piece)
	}
	if err == nil || !strings.Contains(err.Error(), "more than 67108864 bytes") {
		t.Errorf("got %v", err)
	}
}

func FuzzSplitter(f *testing.F) {
	for i, mediaType := range []string{jsonType, protobufType} {
		whole := someStream(f, mediaType)
		f.Add(whole, i == 1, uint64(7))
		f.Add(whole[:len(whole)-9], i == 1, uint64(1<<40))
	}
	f.Add([]byte(`{"a":"\\"}{"b":[{}]} x`), false, uint64(99))
	f.Fuzz(func(t *testing.T, data []byte, protobuf bool, cuts uint64) {
		contentType := jsonType
		if protobuf {
			contentType = protobufType
		}
		run := func(next func(left int) int) (frames [][]byte, unfinished int, failed bool) {
			s, err := wire.NewSplitter(contentType)
			if err != nil {
				t.Fatal(err)
			}
			for rest := data; len(rest) > 0 && err == nil; {
				n := next(len(rest))
				_, err = s.Write(rest[:n])
				rest = rest[n:]
			}
			for f, ok := s.Next(); ok; f, ok = s.Next() {
				frames = append(frames, f)
			}
			return frames, s.Unfinished(), err != nil
		}
		want, left, failed := run(func(n int) int { return n })
		got, left2, failed2 := run(func(n int) int {
			cuts = cuts*6364136223846793005 + 1442695040888963407
			return 1 + int(cuts>>33)%min(n, 13)
		})
		if !same(want, got) || failed != failed2 || left != left2 {
			t.Fatalf("%d frames, %d bytes left, failed %t; in pieces %d, %d, %t", len(want), left, failed, len(got), left2, failed2)
		}
		if protobuf {
			return
		}
		// What encoding/json takes for a stream of objects has these frames.
		var values [][]byte
		for dec := json.NewDecoder(bytes.NewReader(data)); ; {
			var v json.RawMessage
			err := dec.Decode(&v)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || v[0] != '{' {
				return
			}
			values = append(values, append(v, '\n'))
		}
		if !same(values, want) {
			t.Fatalf("encoding/json has %q, the splitter %q", values, want)
		}
	})
}
