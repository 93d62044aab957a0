package splitmix

import (
	"math/bits"
	"testing"
)

// TestNext checks the first outputs of the reference implementation for the seed 1234567.
func TestNext(t *testing.T) {
	state := uint64(1234567)
	for n, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821} {
		if got := Next(state); got != want {
			t.Errorf("output %d is %d, want %d", n, got, want)
		}
		state += gamma
	}
}

// TestMixSpreads checks that inputs that differ in one bit have outputs that differ in about half of the bits.
func TestMixSpreads(t *testing.T) {
	if Mix(0) != 0 {
		t.Errorf("Mix(0) is %d", Mix(0))
	}
	total := 0
	for bit := range 64 {
		total += bits.OnesCount64(Mix(1) ^ Mix(1^1<<bit))
	}
	if mean := float64(total) / 64; mean < 28 || mean > 36 {
		t.Errorf("on average %.1f bits differ, want about 32", mean)
	}
}
