package invariant

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rehearse-k8s/rehearse/invariant/internal/inspect"
)

// AtMostPods returns an invariant that holds while an owner has at most n active pods: pods that have
// not finished and are not being deleted.
func AtMostPods(owner Owner, n int) Invariant {
	return Invariant{Name: fmt.Sprintf("at most %s of %s", count(n, "active pod"), owner), Check: func(v View) error {
		if pods := owner.active(v); len(pods) > n {
			return exactly(pods, n)
		}
		return nil
	}}
}

// ExactlyPods returns an invariant that holds while an owner has n active pods.
func ExactlyPods(owner Owner, n int) Invariant {
	return Invariant{Name: fmt.Sprintf("exactly %s of %s", count(n, "active pod"), owner), Check: func(v View) error {
		return exactly(owner.active(v), n)
	}}
}

// Ready returns an invariant that holds while exactly n active pods of an owner are ready.
func Ready(owner Owner, n int) Invariant {
	return Invariant{Name: fmt.Sprintf("%s of %s", count(n, "ready pod"), owner), Check: func(v View) error {
		var ready []*unstructured.Unstructured
		active := owner.active(v)
		for _, p := range active {
			if conditionStatus(p, "Ready") == "True" {
				ready = append(ready, p)
			}
		}
		if err := exactly(ready, n); err != nil {
			return fmt.Errorf("%w (%d active)", err, len(active))
		}
		return nil
	}}
}

// NoDuplicates returns an invariant that holds while no two active pods of an owner have the same
// value of a label, such as batch.kubernetes.io/job-completion-index.
func NoDuplicates(owner Owner, label string) Invariant {
	return Invariant{Name: fmt.Sprintf("no two active pods of %s with the same %s", owner, label), Check: func(v View) error {
		first := map[string]string{}
		for _, p := range owner.active(v) {
			value, ok := p.GetLabels()[label]
			if !ok {
				continue
			}
			if other, ok := first[value]; ok {
				return fmt.Errorf("%s and %s both have %q", other, inspect.KeyOf(p), value)
			}
			first[value] = inspect.KeyOf(p)
		}
		return nil
	}}
}

func exactly(pods []*unstructured.Unstructured, n int) error {
	switch {
	case len(pods) == n:
		return nil
	case len(pods) == 0:
		return fmt.Errorf("there is none")
	case len(pods) == 1:
		return fmt.Errorf("there is 1: %s", names(pods))
	}
	return fmt.Errorf("there are %d: %s", len(pods), names(pods))
}

// names formats the keys of objects, only the first few if there are many.
func names(objects []*unstructured.Unstructured) string {
	const most = 5
	var keys []string
	for _, o := range objects[:min(most, len(objects))] {
		keys = append(keys, inspect.KeyOf(o))
	}
	if len(objects) > most {
		keys = append(keys, fmt.Sprintf("and %d more", len(objects)-most))
	}
	return strings.Join(keys, ", ")
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
