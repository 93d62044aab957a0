package stage

import (
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
)

// podStage is a stage for pods with label go=yes.
func podStage(name, more string) string {
	return fmt.Sprintf(`
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: %s}
spec:
  resourceRef: {kind: Pod}
  selector: {matchLabels: {go: "yes"}}
  next: {delete: true}
  %s
---`, name, more)
}

func labelled(p *corev1.Pod) { p.Labels = map[string]string{"go": "yes"} }

func annotated(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{key: value} }
}

func TestSelector(t *testing.T) {
	for name, c := range map[string]struct {
		selector string
		pod      *corev1.Pod
		want     bool
		reason   string
	}{
		"empty":                    {`{}`, stagetest.NewPod(), true, "an empty selector takes all"},
		"label":                    {`{matchLabels: {go: "yes"}}`, stagetest.NewPod(labelled), true, ""},
		"label absent":             {`{matchLabels: {go: "yes"}}`, stagetest.NewPod(), false, ""},
		"annotation":               {`{matchAnnotations: {a: b}}`, stagetest.NewPod(annotated("a", "b")), true, ""},
		"annotation other":         {`{matchAnnotations: {a: b}}`, stagetest.NewPod(annotated("a", "c")), false, ""},
		"flat form":                {`{matchExpressions: [{key: .status.phase, operator: In, values: [Pending]}]}`, stagetest.NewPod(), true, "the older way to write jq"},
		"jq form":                  {`{matchExpressions: [{jq: {key: .status.phase, operator: In, values: [Running, Pending]}}]}`, stagetest.NewPod(), true, ""},
		"not in":                   {`{matchExpressions: [{key: .status.phase, operator: NotIn, values: [Running]}]}`, stagetest.NewPod(), true, ""},
		"not in, absent":           {`{matchExpressions: [{key: .status.podIP, operator: NotIn, values: [x]}]}`, stagetest.NewPod(), true, "what is absent is in nothing"},
		"exists, absent":           {`{matchExpressions: [{key: .status.podIP, operator: Exists}]}`, stagetest.NewPod(), false, ""},
		"exists, empty":            {`{matchExpressions: [{key: '""', operator: Exists}]}`, stagetest.NewPod(), true, "an empty string is there"},
		"error is absent":          {`{matchExpressions: [{key: '.status.initContainerStatuses[].name', operator: DoesNotExist}]}`, stagetest.NewPod(), true, "iterating over null is an error in jq"},
		"late error":               {`{matchExpressions: [{key: '1, error("x")', operator: Exists}]}`, stagetest.NewPod(), false, "an error makes the whole result empty"},
		"endless":                  {`{matchExpressions: [{key: 'repeat(1)', operator: Exists}]}`, stagetest.NewPod(), false, "counts as an error"},
		"number":                   {`{matchExpressions: [{key: .metadata.generation, operator: In, values: ["1"]}]}`, stagetest.NewPod(), true, "KWOK never matches this"},
		"number made by jq":        {`{matchExpressions: [{key: '.spec.containers | length', operator: In, values: ["1"]}]}`, stagetest.NewPod(), true, ""},
		"boolean":                  {`{matchExpressions: [{key: .spec.hostNetwork, operator: In, values: ["true"]}]}`, stagetest.NewPod(func(p *corev1.Pod) { p.Spec.HostNetwork = true }), true, ""},
		"object equals no string":  {`{matchExpressions: [{key: .spec, operator: In, values: ["{}"]}]}`, stagetest.NewPod(), false, ""},
		"all are ANDed":            {`{matchLabels: {go: "yes"}, matchExpressions: [{key: .status.phase, operator: In, values: [Running]}]}`, stagetest.NewPod(labelled), false, ""},
		"no kind in typed objects": {`{matchExpressions: [{key: .kind, operator: DoesNotExist}]}`, stagetest.NewPod(), true, "as in KWOK"},
	} {
		t.Run(name, func(t *testing.T) {
			set := mustCompile(t, fmt.Sprintf(`
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: s}
spec: {resourceRef: {kind: Pod}, selector: %s, next: {delete: true}}`, c.selector))
			d := set.Decide(stagetest.Start, 1, c.pod, Past{}, Scene{})
			if d.Chosen() != c.want {
				t.Errorf("matches: %v, want %v (%s); %v", d.Chosen(), c.want, c.reason, set.Explain(c.pod, Scene{}))
			}
		})
	}
}

func TestDelay(t *testing.T) {
	sec := func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
	for name, c := range map[string]struct {
		delay       string
		pod         *corev1.Pod
		least, most time.Duration
		reason      string
	}{
		"none":                 {``, stagetest.NewPod(), 0, 0, ""},
		"empty":                {`delay: {}`, stagetest.NewPod(), 0, 0, ""},
		"duration":             {`delay: {durationMilliseconds: 1500}`, stagetest.NewPod(), sec(1.5), sec(1.5), ""},
		"jitter":               {`delay: {durationMilliseconds: 1000, jitterDurationMilliseconds: 5000}`, stagetest.NewPod(), sec(1), sec(5), "uniform between the two"},
		"jitter under it":      {`delay: {durationMilliseconds: 10000, jitterDurationMilliseconds: 5000}`, stagetest.NewPod(), sec(5), sec(5), "the bound is the delay (kwok #1146)"},
		"negative":             {`delay: {durationMilliseconds: -5}`, stagetest.NewPod(), 0, 0, "never before now"},
		"jitter negative":      {`delay: {durationMilliseconds: 5000, jitterDurationMilliseconds: -1}`, stagetest.NewPod(), 0, 0, ""},
		"from duration":        {`delay: {durationMilliseconds: 9000, durationFrom: {expressionFrom: '.metadata.annotations.d'}}`, stagetest.NewPod(annotated("d", "3s")), sec(3), sec(3), ""},
		"from jq":              {`delay: {durationFrom: {jq: {expression: '.metadata.annotations["d"]'}}}`, stagetest.NewPod(annotated("d", "1m")), sec(60), sec(60), ""},
		"from absent":          {`delay: {durationMilliseconds: 9000, durationFrom: {expressionFrom: '.metadata.annotations.d'}}`, stagetest.NewPod(), sec(9), sec(9), "the fallback"},
		"from nonsense":        {`delay: {durationMilliseconds: 9000, durationFrom: {expressionFrom: '.metadata.annotations.d'}}`, stagetest.NewPod(annotated("d", "soon")), sec(9), sec(9), "the fallback"},
		"from empty":           {`delay: {durationMilliseconds: 9000, durationFrom: {expressionFrom: '.metadata.annotations.d'}}`, stagetest.NewPod(annotated("d", "")), 0, 0, "an empty string is no delay"},
		"from number":          {`delay: {durationMilliseconds: 9000, durationFrom: {jq: {expression: '5'}}}`, stagetest.NewPod(), sec(9), sec(9), "numbers are no durations"},
		"from time":            {`delay: {durationFrom: {jq: {expression: '.metadata.deletionTimestamp'}}}`, stagetest.NewPod(stagetest.Deleting), sec(20), sec(20), "counted from when the stage became the chosen one"},
		"from past time":       {`delay: {durationFrom: {jq: {expression: '"2001-01-01T00:00:00Z"'}}}`, stagetest.NewPod(), 0, 0, ""},
		"jitter from":          {`delay: {durationMilliseconds: 1000, jitterDurationFrom: {jq: {expression: '.metadata.deletionTimestamp'}}}`, stagetest.NewPod(stagetest.Deleting), sec(1), sec(20), "a moment in the grace period"},
		"jitter from nonsense": {`delay: {durationMilliseconds: 1000, jitterDurationFrom: {jq: {expression: '"x"'}}}`, stagetest.NewPod(), sec(1), sec(1), ""},
		"now":                  {`delay: {durationFrom: {jq: {expression: '(now + 4) | todate'}}}`, stagetest.NewPod(), sec(4), sec(4), "now is the decision's"},
		"huge":                 {`delay: {durationMilliseconds: 9223372036854775807}`, stagetest.NewPod(), 1 << 62, 1<<63 - 1, "no overflow"},
	} {
		t.Run(name, func(t *testing.T) {
			set := mustCompile(t, podStage("s", c.delay))
			labelled(c.pod)
			d := set.Decide(stagetest.Start, 1, c.pod, Past{}, Scene{})
			if !d.Chosen() {
				t.Fatal("not chosen")
			}
			if wait := d.Due.Sub(d.Since); wait < c.least || wait > c.most {
				t.Errorf("due after %s, want %s to %s (%s)", wait, c.least, c.most, c.reason)
			}
		})
	}
}

func TestAnUpdateDoesNotRestartTheDelay(t *testing.T) {
	set := mustCompile(t, podStage("s", "delay: {durationMilliseconds: 1000, jitterDurationMilliseconds: 9000}"))
	p := stagetest.NewPod(labelled)
	first := set.Decide(stagetest.Start, 7, p, Past{}, Scene{})
	p.ResourceVersion, p.Annotations = "11", map[string]string{"touched": "yes"}
	second := set.Decide(stagetest.Start.Add(800*time.Millisecond), 7, p, Past{Stage: first.Stage, Since: first.Since}, Scene{})
	if !second.Due.Equal(first.Due) || second.ResourceVersion != "11" {
		t.Errorf("due at %s on version %s, was due at %s", second.Due, second.ResourceVersion, first.Due)
	}
	third := set.Decide(stagetest.Start.Add(time.Second), 7, p, Past{}, Scene{})
	if third.Since.Equal(first.Since) {
		t.Error("a stage that was not chosen meanwhile keeps its old delay")
	}
}

func TestRepeats(t *testing.T) {
	set := mustCompile(t, podStage("s", ""))
	p := stagetest.NewPod(labelled)
	for name, c := range map[string]struct {
		past   Past
		chosen bool
		wait   time.Duration
	}{
		"first time":                   {Past{}, true, 0},
		"just played":                  {Past{Last: "s", LastAt: stagetest.Start, Played: 1}, true, MinRepeat},
		"played long ago":              {Past{Last: "s", LastAt: stagetest.Start.Add(-time.Hour), Played: 1}, true, 0},
		"another was played":           {Past{Last: "o", LastAt: stagetest.Start, Played: 1}, true, 0},
		"changed nothing here":         {Past{Last: "s", LastAt: stagetest.Start, IdleAt: "10", Idle: []string{"s"}, Played: 1}, false, 0},
		"changed nothing on old state": {Past{Last: "s", LastAt: stagetest.Start.Add(-time.Hour), IdleAt: "9", Idle: []string{"s"}, Played: 1}, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := set.Decide(stagetest.Start, 1, p, c.past, Scene{})
			if d.Chosen() != c.chosen {
				t.Fatalf("chosen: %v (%s)", d.Chosen(), d.String())
			}
			if c.chosen && d.Due.Sub(stagetest.Start) != c.wait {
				t.Errorf("waits %s, want %s", d.Due.Sub(stagetest.Start), c.wait)
			}
		})
	}
}

func TestWeights(t *testing.T) {
	shares := func(yaml string) map[string]float64 {
		set := mustCompile(t, yaml)
		out := map[string]float64{}
		const n = 20000
		for i := range n {
			p := stagetest.NewPod(labelled)
			p.UID = types.UID(fmt.Sprintf("uid-%d", i))
			d := set.Decide(stagetest.Start, 42, p, Past{}, Scene{})
			out[d.Stage] += 1.0 / n
		}
		return out
	}
	for name, c := range map[string]struct {
		yaml string
		want map[string]float64
	}{
		"proportional":   {podStage("a", "weight: 1") + podStage("b", "weight: 3"), map[string]float64{"a": 0.25, "b": 0.75}},
		"all zero":       {podStage("a", "") + podStage("b", "") + podStage("c", ""), map[string]float64{"a": 1. / 3, "b": 1. / 3, "c": 1. / 3}},
		"zero and one":   {podStage("a", "weight: 0") + podStage("b", "weight: 1"), map[string]float64{"b": 1}},
		"zero alone":     {podStage("a", "weight: 0"), map[string]float64{"a": 1}},
		"zero, one, two": {podStage("a", "weight: 1") + podStage("b", "") + podStage("c", "weight: 2"), map[string]float64{"a": 1. / 3, "c": 2. / 3}},
	} {
		t.Run(name, func(t *testing.T) {
			got := shares(c.yaml)
			for stage, want := range c.want {
				if math.Abs(got[stage]-want) > 0.015 {
					t.Errorf("%s: share %.3f, want %.3f", stage, got[stage], want)
				}
			}
			if len(got) != len(c.want) {
				t.Errorf("chosen: %v", got)
			}
		})
	}
}

// TestLosersDoNotMatter checks that removing a stage that was not drawn changes nothing.
func TestLosersDoNotMatter(t *testing.T) {
	all := mustCompile(t, podStage("a", "weight: 5")+podStage("b", "weight: 3")+podStage("c", "weight: 1"))
	less := mustCompile(t, podStage("a", "weight: 5")+podStage("b", "weight: 3"))
	rapid.Check(t, func(t *rapid.T) {
		p := stagetest.NewPod(labelled)
		p.UID = types.UID(rapid.String().Draw(t, "uid"))
		seed := rapid.Uint64().Draw(t, "seed")
		past := Past{Played: rapid.Uint64Range(0, 5).Draw(t, "played")}
		before := all.Decide(stagetest.Start, seed, p, past, Scene{})
		after := less.Decide(stagetest.Start, seed, p, past, Scene{})
		if before.Stage != "c" && before.Stage != after.Stage {
			t.Fatalf("%s became %s when c went", before.Stage, after.Stage)
		}
	})
}

// TestDecisions checks the invariants of every decision on every object.
func TestDecisions(t *testing.T) {
	sets := builtinSets(t)
	rapid.Check(t, func(t *rapid.T) {
		set := sets[rapid.SampledFrom([]string{"fast", "general"}).Draw(t, "set")]
		var o Object = stagetest.DrawPod(t)
		if rapid.Bool().Draw(t, "node") {
			o = stagetest.DrawNode(t)
		}
		now := stagetest.Start.Add(time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "now")))
		seed := rapid.Uint64().Draw(t, "seed")
		names := append([]string{""}, append(set.Names(KindPod), set.Names(KindNode)...)...)
		past := Past{
			Stage: rapid.SampledFrom(names).Draw(t, "past"), Since: stagetest.Start, Played: rapid.Uint64Range(0, 3).Draw(t, "played"),
			Last: rapid.SampledFrom(names).Draw(t, "last"), IdleAt: rapid.SampledFrom([]string{"", "10", "5"}).Draw(t, "idle at"),
			Idle: rapid.SliceOfN(rapid.SampledFrom(names), 0, 2).Draw(t, "idle"),
		}
		scene := Scene{NodeReady: rapid.Bool().Draw(t, "ready")}
		d := set.Decide(now, seed, o, past, scene)
		if again := set.Decide(now, seed, o, past, scene); !reflect.DeepEqual(again, d) {
			t.Fatalf("twice the same question: %v, then %v", d, again)
		}
		// Incomplete and without a wake: a stage is chosen without a due time, or none is chosen
		// although one matches and would change something.
		if d.Chosen() && (d.Due.IsZero() || d.Due.Before(d.Since)) {
			t.Fatalf("chosen and never due: %+v", d)
		}
		if !d.Chosen() && d.Reason.Code == NoStage && d.Reason.Matching > 0 {
			t.Fatalf("%d match and none is chosen", d.Reason.Matching)
		}
		if !d.Chosen() && d.Reason.Code == NothingToDo && d.Reason.Matching == 1 && past.IdleAt != o.GetResourceVersion() {
			t.Fatal("nothing to do, on a version it never looked at")
		}
		if d.Chosen() && past.Stage == d.Stage && !d.Since.Equal(past.Since) {
			t.Fatal("the delay started again")
		}
		// A later decision on the same object has the same due time.
		after := past
		after.Decided(&d)
		later := set.Decide(now.Add(time.Hour), seed, o, after, scene)
		if d.Chosen() && (later.Stage != d.Stage || !later.Due.Equal(d.Due)) {
			t.Fatalf("due %s; an hour later: %s due %s", d.Due, later.Stage, later.Due)
		}
	})
}

func TestNodeReadyAnnotation(t *testing.T) {
	set := mustBuiltin(t, "pod-fast")
	p := stagetest.NewPod(stagetest.Running)
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == corev1.PodReady {
			p.Status.Conditions[i].Status = corev1.ConditionFalse
		}
	}
	if d := set.Decide(stagetest.Start, 1, p, Past{}, Scene{NodeReady: false}); d.Chosen() {
		t.Errorf("%s although the node is not Ready", d.Stage)
	}
	if d := set.Decide(stagetest.Start, 1, p, Past{}, Scene{NodeReady: true}); d.Stage != "pod-ready-again" {
		t.Errorf("chose %q", d.Stage)
	}
}

func TestOtherObjectsMatchNothing(t *testing.T) {
	set := mustBuiltin(t)
	if d := set.Decide(stagetest.Start, 1, &corev1.Service{}, Past{}, Scene{}); d.Chosen() {
		t.Error("a Service is played")
	}
	e, err := set.Play(stagetest.Start, stagetest.NewPod(), Decision{}, stagetest.Facts{})
	if err != nil || !e.Empty() {
		t.Errorf("a decision for nothing does %+v, %v", e, err)
	}
}

// TestNameOfTheResource checks that, as in KWOK, the name of a resource can stand for its kind.
func TestNameOfTheResource(t *testing.T) {
	for name, want := range map[string]Kind{
		"pods": KindPod, "node": KindNode, "Pod": KindPod, "NetworkPolicies": {"v1", "NetworkPolicies"},
		"ConfigMap": {"v1", "ConfigMap"}, "configmaps": {"v1", "ConfigMap"}, "configmap": {"v1", "ConfigMap"},
	} {
		set, err := Compile([]Stage{{
			ObjectMeta: metav1.ObjectMeta{Name: "s"},
			Spec:       v1alpha1.StageSpec{ResourceRef: v1alpha1.StageResourceRef{Kind: name}, Selector: &v1alpha1.StageSelector{}, Next: &v1alpha1.StageNext{Delete: true}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if got := set.Kinds(); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
