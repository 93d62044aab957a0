package fault_test

import (
	"math/bits"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/rehearse-k8s/rehearse/fault"
)

// TestDrawStays: a recorded seed must give the same draws in later versions.
func TestDrawStays(t *testing.T) {
	for _, tc := range []struct {
		seed uint64
		key  []string
		want uint64
	}{
		{0, nil, 0x813f0174a2367c13},
		{7, []string{"job", "pods", "default/a"}, 0xc34fb767512f1f4d},
	} {
		if got := fault.Draw(tc.seed, tc.key...); got != tc.want {
			t.Errorf("Draw(%d, %q) = %#x, want %#x", tc.seed, tc.key, got, tc.want)
		}
	}
}

// TestDrawKeys: where one part of a key ends and the next begins matters.
func TestDrawKeys(t *testing.T) {
	seen := map[uint64]string{}
	for _, seed := range []uint64{0, 1, 1 << 63} {
		for _, key := range [][]string{nil, {""}, {"", ""}, {"ab"}, {"a", "b"}, {"a", "b", ""}, {"ab", ""}, {"", "ab"}} {
			name := strconv.FormatUint(seed, 10)
			for _, k := range key {
				name += "," + strconv.Quote(k)
			}
			d := fault.Draw(seed, key...)
			if other, ok := seen[d]; ok {
				t.Errorf("%s and %s are alike", name, other)
			}
			seen[d] = name
		}
	}
}

// TestDrawIndependent: a draw is the same whatever was drawn before it.
func TestDrawIndependent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed, key := rapid.Uint64().Draw(t, "seed"), rapid.SliceOf(rapid.String()).Draw(t, "key")
		want := fault.Draw(seed, key...)
		for range rapid.IntRange(0, 5).Draw(t, "others") {
			fault.Draw(rapid.Uint64().Draw(t, "other seed"), rapid.String().Draw(t, "other key"))
		}
		if got := fault.Draw(seed, key...); got != want {
			t.Fatalf("%#x, and before %#x", got, want)
		}
	})
}

// TestDrawSpreads: neighbouring seeds and keys share no more bits than chance has it.
func TestDrawSpreads(t *testing.T) {
	const n = 4096
	differ, buckets := 0, [16]int{}
	for i := range n {
		a := fault.Draw(uint64(i), "pods", "default/web-"+strconv.Itoa(i))
		differ += bits.OnesCount64(a^fault.Draw(uint64(i+1), "pods", "default/web-"+strconv.Itoa(i))) +
			bits.OnesCount64(a^fault.Draw(uint64(i), "pods", "default/web-"+strconv.Itoa(i+1)))
		buckets[fault.Pick(len(buckets), uint64(i), "pick")]++
	}
	if mean := float64(differ) / (2 * n); mean < 31 || mean > 33 {
		t.Errorf("neighbours differ in %.2f of 64 bits", mean)
	}
	for b, count := range buckets { // 256 expected, 15.5 is one deviation
		if count < 180 || count > 332 {
			t.Errorf("bucket %d has %d of %d", b, count, n)
		}
	}
}
