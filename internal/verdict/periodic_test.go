package verdict_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// timeline writes the ConfigMap "a" at the given times: each text is "SECONDS ACTOR FIELD".
func timeline(texts ...string) *verdict.Activity {
	w := newWriter()
	activity := verdict.NewActivity(w.objects)
	fields := map[string]int{}
	for n, text := range append([]string{"0 user x"}, texts...) {
		var at float64
		var actor, field string
		if _, err := fmt.Sscan(text, &at, &actor, &field); err != nil {
			panic(err)
		}
		fields[field] = n + 1
		var data []string
		for k, v := range fields {
			data = append(data, fmt.Sprintf("%q:%q", k, fmt.Sprint(v)))
		}
		value := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"a","uid":"u"},"data":{%s}}`, strings.Join(data, ","))
		w.write("a", []byte(value))
		for _, p := range w.pending {
			activity.Add(time.Duration(at*float64(time.Second)), actor, w.objects.Take(p))
		}
		w.pending = nil
	}
	return activity
}

// TestRhythm: in a run without faults, writes of the same fields by the same actor at about equal intervals are
// periodic; in other runs, those that runs without faults have.
func TestRhythm(t *testing.T) {
	beat := []verdict.Periodic{{Actor: "a", Resource: "configmaps", Paths: []string{"data.n"}, Period: 20 * time.Second}}
	for name, c := range map[string]struct {
		known  []verdict.Periodic // nil: a run to learn from
		writes []string
		last   time.Duration // the last write that is not periodic
		found  string
	}{
		"a heartbeat":               {nil, []string{"20 a n", "40 a n", "60 a n", "80 a n"}, 0, "a writes configmaps data.n every 20s"},
		"with some jitter":          {nil, []string{"20 a n", "42 a n", "61 a n", "80 a n"}, 0, "a writes configmaps data.n every 20s"},
		"too few":                   {nil, []string{"20 a n", "40 a n", "60 a n"}, 60, ""},
		"irregular":                 {nil, []string{"20 a n", "30 a n", "60 a n", "65 a n", "90 a n"}, 90, ""},
		"a loop":                    {nil, []string{"1 a n", "1.2 a n", "1.4 a n", "1.6 a n", "1.8 a n"}, 1, ""},
		"after work":                {nil, []string{"1 a n", "2 a n", "22 a n", "42 a n", "62 a n", "82 a n"}, 1, "a writes configmaps data.n every 20s"},
		"two fields in turn":        {nil, []string{"10 a n", "20 a m", "30 a n", "40 a m", "50 a n", "60 a m", "70 a n", "80 a m"}, 0, "a writes configmaps data.m every 20s; a writes configmaps data.n every 20s"},
		"two actors, one field":     {nil, []string{"10 a n", "20 b n", "30 a n", "40 b n", "50 a n", "60 b n", "70 a n", "80 b n"}, 80, ""},
		"two replicas in turn":      {nil, []string{"10 a/0 n", "20 a/1 n", "30 a/0 n", "40 a/1 n"}, 0, "a writes configmaps data.n every 10s"},
		"with faults, as known":     {beat, []string{"20 a n", "40 a n"}, 20, ""},
		"with faults, later":        {beat, []string{"20 a n", "100 a n", "121 a n"}, 20, ""},
		"with faults, more often":   {beat, []string{"20 a n", "25 a n", "30 a n", "35 a n", "40 a n"}, 40, ""},
		"with faults, other fields": {beat, []string{"20 a m", "40 a m", "60 a m", "80 a m", "100 a m"}, 100, ""},
		"with faults, other actor":  {beat, []string{"20 b n", "40 b n", "60 b n", "80 b n", "100 b n"}, 100, ""},
		"after a restart":           {beat, []string{"20 a n", "40 a n", "45 a n", "65 a n", "85 a n"}, 45, ""},
	} {
		last, found := timeline(c.writes...).Rhythm(c.known == nil, c.known)
		var texts []string
		for _, p := range found {
			texts = append(texts, p.String())
		}
		if got := strings.Join(texts, "; "); last.Truncate(time.Second) != c.last*time.Second || got != c.found {
			t.Errorf("%s: the last other write was at %s, found %q", name, last, got)
		}
	}
}

// TestMaskPeriodic: a field that an actor writes again and again is not compared; others are.
func TestMaskPeriodic(t *testing.T) {
	state := func(n, other string) verdict.State {
		return verdict.NewState([]verdict.Object{{Resource: "configmaps", Content: content{
			"metadata": content{"name": "a", "namespace": "default"}, "data": content{"n": n, "other": other},
		}}})
	}
	b := verdict.NewBaseline([]verdict.State{state("1", "x"), state("1", "x")})
	b.MaskPeriodic([]verdict.Periodic{{Resource: "configmaps", Paths: []string{"data.n"}}})
	if err := b.Compare(state("2", "x")); err != nil {
		t.Error(err)
	}
	if err := b.Compare(state("1", "y")); err == nil {
		t.Error("another field is not compared")
	}
}
