package cloneset

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
)

// labelled creates a pod for each word, in the order in which they would be updated without a strategy. A word
// contains the pod's labels, "zone=a,disk=ssd"; a single letter is a label with the value "yes", and "." is a
// pod without labels.
func labelled(words string) (pods []*Pod) {
	for i, word := range strings.Fields(words) {
		p := &Pod{Name: fmt.Sprintf("p%03d", i), Labels: map[string]string{}}
		for _, label := range strings.Split(word, ",") {
			if key, value, ok := strings.Cut(label, "="); ok {
				p.Labels[key] = value
			} else if label != "." {
				p.Labels[label] = "yes"
			}
		}
		pods = append(pods, p)
	}
	return pods
}

// numbersOf returns the numbers of pods.
func numbersOf(pods []*Pod) string {
	words := make([]string, 0, len(pods))
	for _, p := range pods {
		words = append(words, strings.TrimLeft(p.Name[1:len(p.Name)-1], "0")+p.Name[len(p.Name)-1:])
	}
	return strings.Join(words, " ")
}

// TestOrderByPriority contains the cases of Kruise's priority_sort_test.go, and checks stability.
func TestOrderByPriority(t *testing.T) {
	weights := func(words ...string) *kruise.UpdatePriorityStrategy {
		s := &kruise.UpdatePriorityStrategy{}
		for _, word := range words {
			label, weight, _ := strings.Cut(word, ":")
			key, value, _ := strings.Cut(label, "=")
			term := kruise.UpdatePriorityWeightTerm{MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{key: value}}}
			if _, err := fmt.Sscan(weight, &term.Weight); err != nil {
				t.Fatal(err)
			}
			s.WeightPriority = append(s.WeightPriority, term)
		}
		return s
	}
	keys := func(keys ...string) *kruise.UpdatePriorityStrategy {
		s := &kruise.UpdatePriorityStrategy{}
		for _, key := range keys {
			s.OrderPriority = append(s.OrderPriority, kruise.UpdatePriorityOrderTerm{OrderedKey: key})
		}
		return s
	}
	both := keys("a")
	both.WeightPriority = weights("a=o-1:5").WeightPriority
	broken := weights("a=1:5")
	broken.WeightPriority = append(broken.WeightPriority, kruise.UpdatePriorityWeightTerm{Weight: 99, MatchSelector: metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Resembles", Values: []string{"1"}}},
	}})

	for _, c := range []struct {
		name     string
		strategy *kruise.UpdatePriorityStrategy
		pods     string
		want     string
	}{
		{"no strategy", nil, ". a=1 .", "0 1 2"},
		{"an empty strategy", &kruise.UpdatePriorityStrategy{}, ". a=1 .", "0 1 2"},

		{"equal pods", weights("k=foo:20", "k=bar:10"), ". .", "0 1"},
		{"the same label", weights("k=foo:20", "k=bar:10"), "k=foo k=foo", "0 1"},
		{"the heavier is first", weights("k=foo:20", "k=bar:10"), "k=bar k=foo", "1 0"},
		{"no weight is last", weights("k=foo:20", "k=bar:10"), ". k=bar k=foo", "2 1 0"},
		{"weights add up to more", weights("k1=foo:20", "k2=bar:10", "k3=baz:15"), "k1=foo k2=bar,k3=baz", "1 0"},
		{"weights add up to less", weights("k1=foo:20", "k2=bar:10", "k3=baz:5"), "k2=bar,k3=baz k1=foo", "1 0"},
		{"weights: equal pods keep their order", weights("k=foo:20"), ". k=foo . k=foo . k=foo", "1 3 5 0 2 4"},
		{"a selector that cannot be parsed matches nothing", broken, ". a=1 a=2", "1 0 2"},

		{"no key", keys("k1", "k2"), ". .", "0 1"},
		{"the larger number is first", keys("k1", "k2"), "k1=o-5 k1=o-10", "1 0"},
		{"the same number", keys("k1", "k2"), "k1=o-10 k1=o-10", "0 1"},
		{"the first key precedes the second", keys("k1", "k2"), "k2=o-20 k1=o-10", "1 0"},
		{"numbers of the second key", keys("k1", "k2"), "k2=o-20 k2=o-10", "0 1"},
		{"a pod without keys precedes all others", keys("k1", "k2"), "k1=o-9 k2=o-9 .", "2 0 1"},
		{"the first key of two counts", keys("k1", "k2"), "k2=9,k1=1 k1=2", "1 0"},
		{"no number at the end is 0", keys("k"), "k=x k=1 k=2x k=3", "3 1 0 2"},
		{"a number that is too large is 0", keys("k"), "k=1 k=99999999999999999999", "0 1"},
		{"a number alone", keys("k"), "k=007 k=8", "1 0"},
		{"keys: equal pods keep their order", keys("k"), "k=1 . k=1 . k=1", "1 3 0 2 4"},

		{"weights precede keys", both, "a=o-9 a=o-1 .", "1 0 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pods := labelled(c.pods)
			slices.Reverse(pods) // the cache lists them in any order
			orderForUpdate(pods, &v1alpha1.CloneSetUpdateStrategy{PriorityStrategy: c.strategy})
			if got := numbersOf(pods); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// TestScatter contains the cases of Kruise's scatter_sort_test.go. done are pods that are already updated. If
// kruise is set, Kruise expects that order: groups of one size, rounded, with the remainder at one end.
// (Kruise's tests differ: that of v1alpha1 expects "2 3 0 4 1 5" for four among two, that of v1beta1 the same
// as this one.)
func TestScatter(t *testing.T) {
	for _, c := range []struct {
		name, terms, pods, done, want, kruise string
	}{
		{"one pod", "a", ".", "", "0", ""},
		{"one pod with the label", "a", "a", "", "0", ""},
		{"one of each", "a", "a .", "", "0 1", ""},
		{"two among four", "a", ". . . . a a", "", "4 0 1 2 3 5", ""},
		{"three among three", "a", ". . . a a a", "", "3 0 1 4 2 5", ""},
		{"two among five", "a", ". . . a . . a", "", "3 0 1 2 4 5 6", ""},
		{"three among six", "a", ". . . . . . a a a", "", "6 0 1 2 7 3 4 5 8", ""},
		{"four among two", "a", ". . a a a a", "", "2 0 3 1 4 5", ""},
		{"six among three", "a", ". . a . a a a a a", "", "2 0 4 1 5 6 3 7 8", "2 0 4 1 5 3 6 7 8"},
		{"five among four", "a", ". a . a . . a a a", "", "1 0 3 2 6 4 7 5 8", ""},
		{"three among seven, other labels do not matter", "a", ". . . . ee x=a . a a a,b", "", "7 0 1 2 3 8 4 5 6 9", ""},
		{"another value is another label", "a=x", ". a=y a=x . a=x", "", "2 0 1 3 4", ""},

		{"no terms", "", ". . . . . .", "", "0 1 2 3 4 5", ""},
		{"a label that nothing has", "c", ". a . a", "", "0 1 2 3", ""},
		{"one term of two labels", "b", ". . . . x x b a a a,b", "", "6 0 1 2 3 4 5 7 8 9", ""},
		{"two terms", "a b", "b b . . a a", "", "0 4 2 3 5 1", ""},
		{"two terms that meet", "a b", ". . . b a,b a", "", "4 0 1 2 5 3", ""},
		{"of as many pods, the first term is first: b", "b a", ". . . . x x b a a b", "", "7 6 0 1 2 3 4 5 9 8", ""},
		{"of as many pods, the first term is first: a", "a b", ". . . . x x b a a b", "", "6 7 0 1 2 3 4 5 8 9", ""},
		{"the same term twice", "a a", ". . . . a a", "", "4 0 1 2 3 5", ""},
		{"two labels on the same pods, eight others", "a b", ". . . . x x a,b . . a,b", "", "6 0 1 2 3 4 5 7 8 9", ""},
		{"two labels on the same pods, seven others", "a b", ". . . x x a,b . . a,b", "", "5 0 1 2 3 4 6 7 8", ""},
		{"two labels, two are done", "a b", ". . . a x x a,b .", ". .", "3 0 1 2 4 5 7 6", ""},
		{"two labels, one with both is done", "a b", ". . . a . . x x a,b . .", "a,b", "0 1 2 4 5 3 6 7 9 10 8", "0 1 2 4 3 5 6 7 9 10 8"},
		{"more with the first label", "a b", ". . . a x,a x a,b . . a,b", "", "6 3 0 1 4 2 5 7 8 9", ""},
		{"four among five", "a b", ". a a x x a,b . . a,b", "", "5 1 0 3 2 4 6 7 8", ""},
		{"some are done, one too many of a", "a b", "a . . a x,a x a,b .", ". a,b", "1 0 2 3 5 4 7 6", ""},
		{"one is done, and is of both", "a b", ". . a a . a x x a,b . .", "a,b", "0 1 2 4 6 3 7 9 5 10 8", "0 2 1 4 3 6 7 5 9 10 8"},
		{"three terms", "a b c", ". a a b b c c c c c", "", "3 1 5 0 6 7 8 9 2 4", ""},
		{"three terms that meet", "a b c", ". a a,c b,c b . . c c c", "", "3 2 0 7 5 8 6 9 1 4", "3 2 0 7 8 5 6 9 1 4"},
		{"going on, one is done", "a", ". . . . a a", "a", "0 1 4 2 3 5", ""},
		{"going on, three are done", "a", "a a . . . . .", ". . a", "2 3 0 4 5 6 1", "2 0 3 4 5 6 1"},

		// One pod after the other, in the same order as at the start.
		{"going on: at the start", "a", ". . . . . . a a a", "", "6 0 1 2 7 3 4 5 8", ""},
		{"going on: after one", "a", ". . . . . . a a", "a", "0 1 2 6 3 4 5 7", ""},
		{"going on: after two", "a", ". . . . . a a", "a .", "0 1 5 2 3 4 6", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			pods, done := labelled(c.pods), labelled(c.done)
			slices.Reverse(pods)
			var terms []kruise.UpdateScatterTerm
			for _, term := range strings.Fields(c.terms) {
				key, value, ok := strings.Cut(term, "=")
				if !ok {
					value = "yes"
				}
				terms = append(terms, kruise.UpdateScatterTerm{Key: key, Value: value})
			}
			orderForUpdate(pods, &v1alpha1.CloneSetUpdateStrategy{ScatterStrategy: terms}, done...)
			if got := numbersOf(pods); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// TestScatterIsEven checks for random pods that no pod is lost, that the last pod with the label is the last
// of all, that pods with and without it alternate as evenly as possible, and that repeated calls after each
// update give the same order.
func TestScatterIsEven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) string {
			return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{".", "a", "a", "."}), 0, 25).Draw(t, name), " ")
		}
		pods, done := labelled(draw("pods")), labelled(draw("done"))
		term := kruise.UpdateScatterTerm{Key: "a", Value: "yes"}
		strategy := &v1alpha1.CloneSetUpdateStrategy{ScatterStrategy: []kruise.UpdateScatterTerm{term}}
		before := slices.Clone(pods)
		orderForUpdate(pods, strategy, done...)

		sorted := slices.Clone(pods)
		slices.SortFunc(sorted, func(p, q *Pod) int { return strings.Compare(p.Name, q.Name) })
		if !slices.Equal(before, sorted) {
			t.Fatal("pods were lost")
		}
		leftWith := count(pods, term)
		with, without := leftWith+count(done, term), len(pods)-leftWith+len(done)-count(done, term)
		if leftWith == 0 || with < 2 || without < 2 {
			if !slices.Equal(before, pods) {
				t.Fatal("there is nothing to scatter")
			}
			return
		}
		if !matches(pods[len(pods)-1], term) {
			t.Fatal("the last pod does not have the label")
		}
		if len(done) == 0 {
			m, n := 0, 0
			for _, p := range pods[:len(pods)-1] {
				if matches(p, term) {
					m++
				} else {
					n++
				}
				if ahead := n*(with-1) - m*without; ahead >= with-1 || ahead < -without {
					t.Fatalf("after %d with the label and %d without, of %d and %d", m, n, with-1, without)
				}
			}
		}
		for i := range pods {
			left := slices.Clone(pods[i:])
			orderForUpdate(left, strategy, slices.Concat(done, pods[:i])...)
			if !slices.Equal(left, pods[i:]) {
				t.Fatalf("after %d: %s, at the start %s", i, numbersOf(left), numbersOf(pods[i:]))
			}
		}
	})
}
