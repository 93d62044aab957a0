package wire_test

import (
	"bytes"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"pgregory.net/rapid"

	"github.com/rehearse-k8s/rehearse/internal/wire"
)

// cborEvent is a watch frame as the API server writes it.
func cborEvent(t *testing.T, kind string, object any) []byte {
	t.Helper()
	frame, err := direct.Marshal(map[string]any{"type": kind, "object": object})
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

// TestCBOR: events, bodies and answers in CBOR have the same fields as in JSON.
func TestCBOR(t *testing.T) {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{
		Name: "a", Namespace: "ns", UID: "5c2a9d10-7d0c-4a40-9a3e-000000000001", ResourceVersion: "42", Labels: map[string]string{"k": "v"},
	}}
	stream := cborEvent(t, "ADDED", pod)
	second := cborEvent(t, "BOOKMARK", map[string]any{"kind": "Pod", "metadata": map[string]any{
		"resourceVersion": "43", "annotations": map[string]any{metav1.InitialEventsAnnotationKey: "true"},
	}})
	expired, err := wire.ExpiredFrame("application/cbor-seq")
	if err != nil {
		t.Fatal(err)
	}
	s, err := wire.NewSplitter("application/cbor-seq")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bytes.Join([][]byte{stream, second, expired}, nil) { // byte by byte
		if _, err := s.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	var events []wire.Event
	for {
		frame, ok := s.Next()
		if !ok {
			break
		}
		e, err := wire.DescribeEvent("application/cbor-seq", frame)
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	if len(events) != 3 || s.Unfinished() != 0 {
		t.Fatalf("%d events, %d bytes left", len(events), s.Unfinished())
	}
	if e := events[0]; e.Type != "ADDED" || e.Key() != "ns/a" || e.UID != string(pod.UID) || e.Revision != 42 {
		t.Errorf("%+v", e)
	}
	if e := events[1]; e.Type != "BOOKMARK" || e.Revision != 43 || !e.InitialEnd {
		t.Errorf("%+v", e)
	}
	if e := events[2]; e.Type != "ERROR" || e.Code != 410 {
		t.Errorf("%+v", e)
	}
	body, err := direct.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	if o, revision, err := wire.ReadAnswer("application/cbor", append([]byte{0xd9, 0xd9, 0xf7}, body...)); err != nil || o.Name != "a" || revision != 42 {
		t.Errorf("%+v at %d, %v", o, revision, err)
	}
}

// TestCBORFrames: whatever a sequence holds and however its bytes arrive, its frames are its
// items.
func TestCBORFrames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var value func(depth int) any
		value = func(depth int) any {
			switch kind := rapid.IntRange(0, 6).Draw(t, "kind"); {
			case kind == 0:
				return rapid.Int64().Draw(t, "int")
			case kind == 1:
				return rapid.Float64Range(-1e9, 1e9).Draw(t, "float")
			case kind == 2:
				return rapid.Bool().Draw(t, "bool")
			case kind == 3 || depth == 0:
				return strings.Repeat("x", rapid.IntRange(0, 300).Draw(t, "length"))
			case kind == 4:
				return nil
			case kind == 5:
				list := []any{}
				for range rapid.IntRange(0, 4).Draw(t, "items") {
					list = append(list, value(depth-1))
				}
				return list
			}
			m := map[string]any{}
			for _, key := range rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,8}`), 0, 4).Draw(t, "keys") {
				m[key] = value(depth - 1)
			}
			return m
		}
		var want [][]byte
		var all []byte
		for range rapid.IntRange(1, 5).Draw(t, "frames") {
			b, err := direct.Marshal(value(3))
			if err != nil {
				t.Fatal(err)
			}
			want, all = append(want, b), append(all, b...)
		}
		s, err := wire.NewSplitter("application/cbor-seq")
		if err != nil {
			t.Fatal(err)
		}
		var got [][]byte
		for len(all) > 0 {
			n := rapid.IntRange(1, len(all)).Draw(t, "chunk")
			if _, err := s.Write(all[:n]); err != nil {
				t.Fatal(err)
			}
			all = all[n:]
			for {
				frame, ok := s.Next()
				if !ok {
					break
				}
				got = append(got, frame)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%d frames, want %d", len(got), len(want))
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("frame %d is %x, want %x", i, got[i], want[i])
			}
		}
	})
}

// FuzzCBOR: no bytes make the splitter or the reader panic or go on for ever.
func FuzzCBOR(f *testing.F) {
	f.Add([]byte{0xa1, 0x64, 't', 'y', 'p', 'e', 0x65, 'A', 'D', 'D', 'E', 'D'})
	f.Add([]byte{0x9f, 0x9f, 0xff})
	f.Add([]byte{0xbb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := wire.NewSplitter("application/cbor-seq")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = s.Write(b)
		for {
			frame, ok := s.Next()
			if !ok {
				return
			}
			_, _ = wire.DescribeEvent("application/cbor-seq", frame)
		}
	})
}
