package nodepressure

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rehearse-k8s/rehearse/internal/stage/limit"
)

// The annotations of a node.
const (
	// AnnotationHard is the threshold below which pods are evicted, as in memory.available<100Mi or memory.available<5%.
	AnnotationHard = "rehearse-k8s.github.io/eviction-hard"
	// AnnotationTransition is how long the condition stays after the last pressure, as in 30s; without it, 5m, the
	// default of the kubelet's --eviction-pressure-transition-period.
	AnnotationTransition = "rehearse-k8s.github.io/eviction-pressure-transition-period"
)

// defaultTransition is how long the condition stays without AnnotationTransition.
const defaultTransition = 5 * time.Minute

// signal is the only signal that is simulated.
const signal = "memory.available"

// Threshold is the amount of available memory below which a node is under pressure. One of the fields is set.
type Threshold struct {
	Bytes   int64
	Percent float64 // of the capacity
}

// Of returns the threshold in bytes for a node with a capacity in bytes.
func (t Threshold) Of(capacity int64) int64 {
	if t.Percent > 0 {
		return int64(t.Percent / 100 * float64(capacity))
	}
	return t.Bytes
}

// Settings are what the annotations of a node say.
type Settings struct {
	Threshold
	Transition time.Duration
}

// ParseSettings reads the annotations of a node. ok is false if it has no threshold. The error names the annotation and
// its value.
func ParseSettings(annotations map[string]string) (s Settings, ok bool, err error) {
	text, ok := annotations[AnnotationHard]
	if !ok {
		return s, false, nil
	}
	fail := func(key, text, want string) (Settings, bool, error) {
		return Settings{}, false, fmt.Errorf("annotation %s: %s is not %s", key, limit.Quote(text), want)
	}
	const want = "a threshold such as memory.available<100Mi or memory.available<5% (memory.available is the only signal)"
	name, value, found := strings.Cut(text, "<")
	value = strings.TrimSpace(value)
	if !found || strings.TrimSpace(name) != signal {
		return fail(AnnotationHard, text, want)
	}
	if percent, is := strings.CutSuffix(value, "%"); is {
		s.Percent, err = strconv.ParseFloat(percent, 64)
		if err != nil || !(s.Percent > 0 && s.Percent < 100) {
			return fail(AnnotationHard, text, want)
		}
	} else {
		quantity, err := resource.ParseQuantity(value)
		if err != nil || quantity.Sign() <= 0 {
			return fail(AnnotationHard, text, want)
		}
		s.Bytes = quantity.Value()
	}
	s.Transition = defaultTransition
	if text, ok := annotations[AnnotationTransition]; ok {
		if s.Transition, err = time.ParseDuration(text); err != nil || s.Transition < 0 {
			return fail(AnnotationTransition, text, "a time such as 30s or 5m")
		}
	}
	return s, true, nil
}
