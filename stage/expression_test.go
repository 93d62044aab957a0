package stage

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	"github.com/rehearse-k8s/rehearse/stage/expr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// TestCEL evaluates one condition on a pod each.
func TestCEL(t *testing.T) {
	p := stagetest.NewPod(labelled, stagetest.Running, func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1500m")}
	})
	for expression, want := range map[string]bool{
		`self.metadata.name == 'web'`:                                                                      true,
		`self.status.phase == 'Running'`:                                                                   true,
		`self.status.reason == ''`:                                                                         true,  // a field that is not set has its zero value
		`has(self.status.reason)`:                                                                          false, // the field does not exist
		`has(self.status.phase)`:                                                                           true,
		`self.metadata.deletionTimestamp == null`:                                                          true,
		`self.metadata.labels['go'] == 'yes'`:                                                              true,
		`'go' in self.metadata.labels`:                                                                     true,
		`'no' in self.metadata.labels`:                                                                     false,
		`self.metadata.labels.no == 'x'`:                                                                   false, // an error is no match
		`self.nonsense == 1`:                                                                               false,
		`self.spec.containers.all(c, c.image.startsWith('nginx'))`:                                         true,
		`self.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')`:                        true,
		`self.metadata.creationTimestamp < timestamp('2026-03-01T12:00:00Z')`:                              true,
		`UnixSecond(self.metadata.creationTimestamp) > 1.0`:                                                true,
		`self.spec.containers[0].resources.requests['cpu'] > Quantity('1')`:                                true,
		`self.spec.containers[0].resources.requests['cpu'] + Quantity('500m') == Quantity('2')`:            true,
		`Quantity('1Gi') - Quantity('1Mi') < Quantity('1Gi')`:                                              true,
		`Quantity('1') * 3 == Quantity('3') && Quantity('1') / 2 == Quantity('0.5') && -Quantity('1') < 0`: true,
		`self.metadata.generation == 1`:                                                                    true,
		`self.spec.hostNetwork`:                                                                            false,
		`'text'`:                                                                                           false,
	} {
		r, err := (&compiling{cel: &expr.CELCompiler{}}).compileCondition("f", expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		if got := r.Holds(&expr.View{Object: p, Now: stagetest.Start}, "s"); got != want {
			t.Errorf("%s: %v, want %v; %s", expression, got, want, r.problem(&expr.View{Object: p, Now: stagetest.Start}, "s"))
		}
	}
	w := widget(t, "spec: {num: 3, list: [a]}\nstatus: {ready: true}")
	for expression, want := range map[string]bool{
		`self.spec.num == 3 && self.spec.list.size() == 1 && self.status.ready`: true,
		`self.apiVersion == 'example.com/v1'`:                                   true,
		`has(self.spec.none)`:                                                   false,
		`self.spec.none == 1`:                                                   false,
	} {
		r, err := (&compiling{cel: &expr.CELCompiler{}}).compileCondition("f", expression)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Holds(&expr.View{Object: w, Now: stagetest.Start}, "s"); got != want {
			t.Errorf("%s: %v, want %v", expression, got, want)
		}
	}
}

// TestAnErrorConcernsOneStage checks that an error affects only its stage; KWOK stops every stage
// of the kind.
func TestAnErrorConcernsOneStage(t *testing.T) {
	set := mustCompile(t, podStage("fine", "")+`
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: broken}
spec:
  resourceRef: {kind: Pod}
  selector: {matchExpressions: [{cel: {expression: "self.metadata.labels.foo == 'x'"}}]}
  next: {delete: true}`)
	p := stagetest.NewPod(labelled)
	if d := set.Decide(stagetest.Start, 1, p, Past{}, Scene{}); d.Stage != "fine" || d.Reason.Matching != 1 {
		t.Errorf("chose %q of %d", d.Stage, d.Reason.Matching)
	}
	for _, e := range set.Explain(p, Scene{}) {
		if e.Stage == "broken" && (e.Matches || e.Problem != "no such key: foo") {
			t.Errorf("got %+v", e)
		}
	}
}

func TestWeightFrom(t *testing.T) {
	weight := func(from string) string { return podStage("w", "weight: 3\n  weightFrom: "+from) }
	for name, c := range map[string]struct {
		from  string
		pod   *corev1.Pod
		share float64 // its share when another stage of weight 1 matches
	}{
		"text":                 {`{jq: {expression: '.metadata.annotations["w"]'}}`, annotatedPod("w", "1"), 0.5},
		"hexadecimal":          {`{expressionFrom: '.metadata.annotations["w"]'}`, annotatedPod("w", "0x9"), 0.9},
		"text of a fraction":   {`{jq: {expression: '.metadata.annotations["w"]'}}`, annotatedPod("w", "1.9"), 0.5},
		"whole number of jq":   {`{jq: {expression: '.spec.containers | length'}}`, annotatedPod("w", ""), 0.5},
		"fraction of jq":       {`{jq: {expression: '9.9'}}`, annotatedPod("w", ""), 0.9},
		"number of the object": {`{jq: {expression: '.metadata.generation'}}`, annotatedPod("w", ""), 0.5},
		"cel int":              {`{cel: {expression: '9'}}`, annotatedPod("w", ""), 0.9},
		"cel double":           {`{cel: {expression: '9.7'}}`, annotatedPod("w", ""), 0.9},
		"cel text":             {`{cel: {expression: "self.metadata.annotations['w']"}}`, annotatedPod("w", "9"), 0.9},
		"cel bool":             {`{cel: {expression: 'true'}}`, annotatedPod("w", ""), 0.5},
		"absent":               {`{jq: {expression: '.metadata.annotations["none"]'}}`, annotatedPod("w", ""), 0.75},
		"nonsense":             {`{jq: {expression: '.metadata.annotations["w"]'}}`, annotatedPod("w", "heavy"), 0},
		"empty":                {`{jq: {expression: '.metadata.annotations["w"]'}}`, annotatedPod("w", ""), 0},
		"negative":             {`{jq: {expression: '.metadata.annotations["w"]'}}`, annotatedPod("w", "-20000"), 0},
		"beyond numbers":       {`{jq: {expression: '1e308*10'}}`, annotatedPod("w", ""), -1},
		"cel error":            {`{cel: {expression: "self.metadata.annotations['none']"}}`, annotatedPod("w", ""), 0},
	} {
		t.Run(name, func(t *testing.T) {
			set := mustCompile(t, weight(c.from)+podStage("other", "weight: 1"))
			const n = 4000
			won := 0
			for i := range n {
				p := c.pod.DeepCopy()
				p.UID = types.UID(fmt.Sprint(i))
				if set.Decide(stagetest.Start, 1, p, Past{}, Scene{}).Stage == "w" {
					won++
				}
			}
			if got := float64(won) / n; c.share >= 0 && math.Abs(got-c.share) > 0.03 {
				t.Errorf("share %.3f, want %.3f", got, c.share)
			}
		})
	}
}

func annotatedPod(key, value string) *corev1.Pod {
	return stagetest.NewPod(labelled, annotated(key, value))
}

// TestWeightsInError checks that stages whose weights cannot be evaluated have equal shares among
// themselves, and none if another weight can.
func TestWeightsInError(t *testing.T) {
	broken := func(name string) string {
		return podStage(name, `weightFrom: {cel: {expression: "self.metadata.annotations['none']"}}`)
	}
	count := func(yaml string) map[string]int {
		set, out := mustCompile(t, yaml), map[string]int{}
		for i := range 2000 {
			p := stagetest.NewPod(labelled)
			p.UID = types.UID(fmt.Sprint(i))
			out[set.Decide(stagetest.Start, 1, p, Past{}, Scene{}).Stage]++
		}
		return out
	}
	if got := count(broken("a") + broken("b")); got["a"] < 800 || got["b"] < 800 {
		t.Errorf("two in error: %v", got)
	}
	if got := count(broken("a") + podStage("b", "") + podStage("c", "")); got["a"] != 0 || got["b"] < 800 || got["c"] < 800 {
		t.Errorf("one in error and two of 0: %v", got)
	}
	if got := count(broken("a") + podStage("b", "")); got["b"] != 2000 {
		t.Errorf("one in error and one of 0: %v", got)
	}
}

func TestDelayExpressions(t *testing.T) {
	const second = time.Second
	for name, c := range map[string]struct {
		delay       string
		least, most time.Duration
		held        bool
		problem     string
	}{
		"cel duration":           {`{durationFrom: {cel: {expression: "duration('3s')"}}}`, 3 * second, 3 * second, false, ""},
		"cel text":               {`{durationFrom: {cel: {expression: "'3s'"}}}`, 3 * second, 3 * second, false, ""},
		"cel nanoseconds":        {`{durationFrom: {cel: {expression: "3000000000"}}}`, 3 * second, 3 * second, false, ""},
		"cel double":             {`{durationFrom: {cel: {expression: "3e9"}}}`, 3 * second, 3 * second, false, ""},
		"cel time":               {`{durationFrom: {cel: {expression: "Now() + duration('3s')"}}}`, 3 * second, 3 * second, false, ""},
		"cel huge":               {`{durationFrom: {cel: {expression: "1e300"}}}`, 1 << 62, 1<<63 - 1, false, ""},
		"cel jitter":             {`{durationMilliseconds: 1000, jitterDurationFrom: {cel: {expression: "duration('5s')"}}}`, second, 5 * second, false, ""},
		"cel chance":             {`{durationFrom: {cel: {expression: "duration(string(int(Rand() * 9.0)) + 's')"}}}`, 0, 9 * second, false, ""},
		"cel since":              {`{durationFrom: {cel: {expression: "duration(string(int(self.SinceSecond())) + 's')"}}}`, 60 * second, 60 * second, false, ""},
		"1e9 ms":                 {`{durationMilliseconds: 1000000000}`, 1e6 * second, 1e6 * second, false, ""},
		"cel error":              {`{durationFrom: {cel: {expression: "self.metadata.annotations['none']"}}}`, 0, 0, true, "spec.delay.durationFrom.cel.expression: no such key: none"},
		"cel error, fixed":       {`{durationMilliseconds: 4000, durationFrom: {cel: {expression: "self.metadata.annotations['none']"}}}`, 4 * second, 4 * second, false, "spec.delay.durationFrom.cel.expression: no such key: none"},
		"jq error":               {`{durationFrom: {jq: {expression: '.metadata.name | tonumber'}}}`, 0, 0, true, "spec.delay.durationFrom.jq.expression: tonumber cannot be"},
		"jq error, fixed":        {`{durationMilliseconds: 4000, durationFrom: {jq: {expression: '.metadata.name | .foo | .bar'}}}`, 4 * second, 4 * second, false, "spec.delay.durationFrom.jq.expression: expected an object"},
		"jq error, jitter":       {`{durationMilliseconds: 1000, jitterDurationFrom: {expressionFrom: '1 - .metadata.name'}}`, second, second, false, "spec.delay.jitterDurationFrom.expressionFrom: cannot subtract"},
		"jq of nothing":          {`{durationFrom: {jq: {expression: '.metadata.annotations.at | tonumber'}}}`, 0, 0, false, ""},
		"jq of nothing, each":    {`{durationMilliseconds: 4000, durationFrom: {jq: {expression: '.status.nothing[] | .wait'}}}`, 4 * second, 4 * second, false, ""},
		"jq of nothing, first":   {`{durationFrom: {jq: {expression: '.metadata.annotations.at - 1'}}}`, 0, 0, false, ""},
		"jq of nothing, second":  {`{durationFrom: {jq: {expression: '1 - .metadata.annotations.at'}}}`, 0, 0, false, ""},
		"nonsense":               {`{durationFrom: {jq: {expression: '"soon"'}}}`, 0, 0, true, `spec.delay.durationFrom.jq.expression: "soon" is neither an RFC 3339 time nor a duration such as 5s`},
		"huge nonsense":          {`{durationFrom: {jq: {expression: '"x" * 100000'}}}`, 0, 0, true, `(100000 bytes) is neither`},
		"jitter in error":        {`{jitterDurationFrom: {jq: {expression: '"soon"'}}}`, 0, 0, true, `"soon" is neither`},
		"jitter in error, fixed": {`{durationMilliseconds: 1000, jitterDurationFrom: {jq: {expression: '"soon"'}}}`, second, second, false, `"soon" is neither`},
		"negative to huge":       {`{durationMilliseconds: -9223372036854775808, jitterDurationMilliseconds: 9223372036854775807}`, 0, 1<<63 - 1, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			set := mustCompile(t, podStage("s", "delay: "+c.delay))
			d := set.Decide(stagetest.Start, 1, stagetest.NewPod(labelled), Past{}, Scene{})
			if d.Chosen() == c.held || c.held && (d.Reason.Code != Held || !strings.HasPrefix(d.String(), "nothing: s is held: ")) {
				t.Fatalf("held: %v; %s", !d.Chosen(), d.String())
			}
			if !strings.Contains(d.Problem, c.problem) || c.problem == "" && d.Problem != "" {
				t.Errorf("problem %q, want %q", d.Problem, c.problem)
			}
			if wait := d.Due.Sub(d.Since); !c.held && (wait < c.least || wait > c.most) {
				t.Errorf("waits %s, want %s to %s", wait, c.least, c.most)
			}
		})
	}
}

// TestEndlessPrograms checks that the evaluation of any program ends.
func TestEndlessPrograms(t *testing.T) {
	for _, program := range []string{`def f: f; f`, `repeat(1)`, `[range(1e12)]`, `last(range(1e12))`, `until(false; .)`} {
		q, err := expr.CompileJQ(program, expr.Pod, false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := q.Results(&expr.View{Object: stagetest.NewPod(), Now: stagetest.Start}); err == nil {
			t.Errorf("%s ended", program)
		}
	}
	r, err := (&compiling{cel: &expr.CELCompiler{}}).compileCondition("f", `[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, a + b + c + d + e + f > 0))))))`)
	if err != nil {
		t.Fatal(err)
	}
	if r.Holds(&expr.View{Object: stagetest.NewPod()}, "s") || !strings.Contains(r.problem(&expr.View{Object: stagetest.NewPod()}, "s"), "cost limit") {
		t.Error("a million turns are not too many")
	}
}
