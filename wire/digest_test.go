package wire_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/rehearse-k8s/rehearse/wire"
)

func TestDigest(t *testing.T) {
	same := [][2]string{
		{"", ""},
		{"id " + uidA, "id " + uidB},
		{uidA + uidB + uidA, uidB + uidA + uidB},
		{"node-1_" + uidA + "-x", "node-1_" + strings.ToUpper(uidB) + "-x"},
		{"deadbeef-" + uidA, "deadbeef-" + uidB},
	}
	differ := [][2]string{
		{"", "-"},
		{"a-b", "a-c"},
		{uidA + " " + uidB, uidA + " " + uidA},
		{uidA + " x", uidB + " y"},
		{uidA[:35] + "g", uidB[:35] + "g"},
		{uidA[1:], uidB[1:]},
	}
	for _, p := range same {
		if a, b := wire.Digest([]byte(p[0])), wire.Digest([]byte(p[1])); a != b || len(a) != 16 {
			t.Errorf("%q has %s and %q has %s", p[0], a, p[1], b)
		}
	}
	for _, p := range differ {
		if a, b := wire.Digest([]byte(p[0])), wire.Digest([]byte(p[1])); a == b {
			t.Errorf("%q and %q have %s", p[0], p[1], a)
		}
	}
	for _, mediaType := range []string{jsonType, protobufType} {
		a := stream(t, mediaType, watch.Event{Type: watch.Added, Object: pod("a", uidA, "5")})
		b := stream(t, mediaType, watch.Event{Type: watch.Added, Object: pod("a", strings.Replace(uidA, "0b", "1b", 1), "5")})
		if wire.Digest(a) != wire.Digest(b) {
			t.Errorf("%s: frames that differ in a UID differ", mediaType)
		}
	}
}

// TestDigestMany has more UUIDs than the digest keeps without a map.
func TestDigestMany(t *testing.T) {
	text := func(first, again int) []byte {
		var b strings.Builder
		for i := range 20 {
			fmt.Fprintf(&b, "%08x%s ", first+i, uidA[8:])
		}
		fmt.Fprintf(&b, "%08x%s", first+again, uidA[8:])
		return []byte(b.String())
	}
	if wire.Digest(text(100, 17)) != wire.Digest(text(5000, 17)) {
		t.Error("the digest depends on the UUIDs themselves")
	}
	if wire.Digest(text(100, 17)) == wire.Digest(text(100, 3)) {
		t.Error("the digest does not tell the 4th UUID from the 18th")
	}
}
