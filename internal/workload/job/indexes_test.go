package job

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// TestParseIndexes contains the cases of upstream's TestCalculateSucceededIndexes, and malformed text.
func TestParseIndexes(t *testing.T) {
	for _, c := range []struct {
		text  string
		below int
		want  string
		bad   bool
	}{
		{"", 9, "", false},
		{"1,3-5,7,8", 9, "1,3-5,7,8", false},
		{"0", 1, "0", false},
		{"0-2", 9, "0-2", false},
		{"0-2,4,6,7", 7, "0-2,4,6", false}, // completions has decreased
		{"3", 2, "", false},
		{"0-9", 0, "", false},
		{"1-2,3-4", 9, "1-4", false},
		{"1,2,3", 9, "1-3", false},
		{"1,x,3", 9, "1,3", true},
		{"5-3", 9, "", true},
		{"-3", 9, "", true},
		{"1-", 9, "", true},
		{"1-2-3", 9, "", true},
		{"7,1", 9, "1,7", false},
		{"1-5,2-3", 9, "1-5", false},
		{"99999999999999999999", 9, "", true},
	} {
		got, err := ParseIndexes(c.text, c.below)
		if got.String() != c.want || (err != nil) != c.bad {
			t.Errorf("%q below %d: %q, %v; want %q, error %t", c.text, c.below, got, err, c.want, c.bad)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: the error is not one line: %s", c.text, err)
		}
	}
}

// members returns the indexes one by one.
func members(x Indexes) (all []int) {
	for _, s := range x {
		for i := s.First; i <= s.Last; i++ {
			all = append(all, i)
		}
	}
	return all
}

// TestIndexesAsSets compares Indexes with a map, and checks that equal sets have equal text.
func TestIndexesAsSets(t *testing.T) {
	spans := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Span {
		first := rapid.IntRange(0, 60).Draw(t, "first")
		return Span{first, first + rapid.SampledFrom([]int{0, 0, 1, 2, 9}).Draw(t, "more")}
	}), 0, 20)
	build := func(all []Span) (x Indexes, naive map[int]bool) {
		naive = map[int]bool{}
		for _, s := range all {
			x = x.With(s)
			for i := s.First; i <= s.Last; i++ {
				naive[i] = true
			}
		}
		return x, naive
	}
	rapid.Check(t, func(t *rapid.T) {
		x, naive := build(spans.Draw(t, "x"))
		if want := slices.Sorted(maps.Keys(naive)); !slices.Equal(members(x), want) || x.Len() != len(want) {
			t.Fatalf("%v is not %v", x, want)
		}
		for i := -1; i < 75; i++ {
			if x.Has(i) != naive[i] {
				t.Fatalf("%s has %d: %t", x, i, x.Has(i))
			}
		}
		for i := 1; i < len(x); i++ {
			if x[i].First <= x[i-1].Last+1 {
				t.Fatalf("%v touch or overlap", x)
			}
		}
		back, err := ParseIndexes(x.String(), 1000)
		if err != nil || !slices.Equal(back, x) {
			t.Fatalf("%s is read as %s, %v", x, back, err)
		}
		below := rapid.IntRange(0, 75).Draw(t, "below")
		cut, err := ParseIndexes(x.String(), below)
		if want := slices.DeleteFunc(members(x), func(i int) bool { return i >= below }); err != nil || !slices.Equal(members(cut), want) {
			t.Fatalf("%s below %d: %s", x, below, cut)
		}
		y, other := build(spans.Draw(t, "y"))
		common := 0
		for i := range naive {
			if other[i] {
				common++
			}
		}
		if x.Common(y) != common || y.Common(x) != common {
			t.Fatalf("%s and %s have %d in common, not %d", x, y, common, x.Common(y))
		}
	})
}

// FuzzParseIndexes checks for any text that the result is a set of indexes below the limit, and that its text
// parses to the same set.
func FuzzParseIndexes(f *testing.F) {
	for _, seed := range []string{"", "1,3-5,7,8", "5-3", "1-2-3", "0-2147483647", ",,", "-1", "007", "+1"} {
		f.Add(seed, 10)
	}
	f.Fuzz(func(t *testing.T, text string, below int) {
		x, _ := ParseIndexes(text, below)
		for i, s := range x {
			if s.First < 0 || s.Last < s.First || s.Last >= below || i > 0 && s.First <= x[i-1].Last+1 {
				t.Fatalf("%q below %d: %v", text, below, x)
			}
		}
		back, err := ParseIndexes(x.String(), below)
		if err != nil || !slices.Equal(back, x) {
			t.Fatalf("%q: %s is read as %s, %v", text, x, back, err)
		}
	})
}

// TestPending contains the cases of upstream's TestFirstPendingIndexes.
func TestPending(t *testing.T) {
	for _, c := range []struct{ job, pods, want string }{
		{"p=5 c=3 indexed", "", "[0 1 2]"},
		{"p=2 c=5 indexed", "", "[0 1 2 3 4]"},
		{"c=6 indexed", "R #0, P #1", "[2 3 4 5]"},
		{"c=6 indexed completed=4,5", "P #5", "[0 1 2 3]"},
		{"c=12 indexed completed=2-4,9", "P #3, R #5, P #8, R, R #-3", "[0 1 6 7 10 11]"},
		{"c=10 indexed perindex=1 completed=1,5,9 failed-indexes=2,6,7", "P #3, P #9", "[0 4 8]"},
		{"c=4 indexed", "R terminating #1", "[0 1 2 3]"},
		{"c=4 indexed replace=Failed", "R terminating #1", "[0 2 3]"},
		{"c=4 indexed", "S #1, F #2, R #9, S untracked #3", "[0 2 3]"},
		{"c=2 indexed completed=0,1", "", "[]"},
	} {
		j := newJob(c.job)
		p := &plan{State: State{Job: j, Pods: newPods(c.pods), Limits: atOnce()}, now: noon, job: j}
		p.read()
		if got := fmt.Sprint(slices.Collect(p.pending())); got != c.want {
			t.Errorf("%s: %s: %s, want %s", c.job, c.pods, got, c.want)
		}
	}
}

// TestDuplicates contains the cases of upstream's TestAppendDuplicatedIndexPodsForRemoval: the UIDs of the
// pods that are removed because another pod of their index is kept or because they have no index.
func TestDuplicates(t *testing.T) {
	for _, c := range []struct{ pods, want string }{
		{"a: P, b: P #2, c: R #5, d: R #6", "a d"},
		{"a: P #5, b: R node #0, c: P #3, d: R node #0, e: R node #3, f: P #0, g: R #6, h: P #6", "b c f g h"},
		{"a: P, b: R #invalid, c: R #-2, d: P #0, e: P #1, f: P #1, g: R node #1", "a b c e f"},
		{"a: R #0, b: R #1", ""},
	} {
		j := newJob("p=9 c=6 indexed")
		p := &plan{State: State{Job: j, Pods: newPods(c.pods), Limits: atOnce()}, now: noon, job: j}
		p.read()
		surplus := p.surplus(0)
		if got := uidsOf(surplus); got != c.want {
			t.Errorf("%s: %q go, want %q", c.pods, got, c.want)
		}
	}
}

func uidsOf(pods []*corev1.Pod) string {
	var all []string
	for _, p := range pods {
		all = append(all, string(p.UID))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}
