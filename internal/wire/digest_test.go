package wire_test

import (
	"math/bits"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/rehearse-k8s/rehearse/internal/wire"
)

func TestDigest(t *testing.T) {
	same := [][2]string{
		{"", ""},
		{"id " + uidA, "id " + uidB},
		{uidA + uidB + uidA, uidB + uidA + uidB},
		{uidA + " " + uidB, uidB + " " + uidA},
		{uidA + " " + uidB, uidA + " " + uidA},
		{"node-1_" + uidA + "-x", "node-1_" + strings.ToUpper(uidB) + "-x"},
		{"deadbeef-" + uidA, "deadbeef-" + uidB},
	}
	differ := [][2]string{
		{"", "-"},
		{"a-b", "a-c"},
		{uidA + " " + uidB, uidA},
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

// TestDigestSpreads changes one bit at a time: all digests differ, and about half of
// their bits.
func TestDigestSpreads(t *testing.T) {
	body := []byte(strings.Repeat("the life of a pod, ", 5))
	number := func() uint64 {
		n, err := strconv.ParseUint(wire.Digest(body), 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := number()
	seen := map[uint64]bool{before: true}
	differ := 0
	for i := range len(body) * 8 {
		body[i/8] ^= 1 << (i % 8)
		n := number()
		body[i/8] ^= 1 << (i % 8)
		if seen[n] {
			t.Errorf("with bit %d changed it is one that was seen", i)
		}
		seen[n] = true
		differ += bits.OnesCount64(n ^ before)
	}
	if mean := float64(differ) / float64(len(body)*8); mean < 31 || mean > 33 {
		t.Errorf("one bit changes %.2f of 64", mean)
	}
	for n := range 40 { // zeros are not nothing
		if d := wire.Digest(make([]byte, n)); d == wire.Digest(make([]byte, n+1)) {
			t.Errorf("%d and %d zeros have %s", n, n+1, d)
		}
	}
}
