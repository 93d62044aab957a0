package expr_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/rehearse-k8s/rehearse/internal/stage/limit"
	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	"github.com/rehearse-k8s/rehearse/stage/expr"
)

// celPod is the pod of the tests of CEL, created a minute before the time of the view.
func celPod() *corev1.Pod {
	return stagetest.NewPod(stagetest.Running, func(p *corev1.Pod) {
		grace := int64(30)
		p.CreationTimestamp = metav1.NewTime(stagetest.Start.Add(-time.Minute))
		p.Labels = map[string]string{"app": "web"}
		p.Spec.TerminationGracePeriodSeconds = &grace
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1500m"), "memory": resource.MustParse("1Gi")}
		p.Spec.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString("http")}}}
		p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}}}
	})
}

// TestCELValues: the value of each kind of expression on a pod.
func TestCELValues(t *testing.T) {
	compiler := &expr.CELCompiler{}
	for expression, want := range map[string]string{
		"'text'":                   `"text"`,
		"1 + 2":                    "the number 3",
		"7u":                       "the number 7",
		"0.5":                      "the number 0.5",
		"1 == 1":                   "true",
		"null":                     "nothing",
		"[1]":                      "an object or a list",
		"{'a': 1}":                 "an object or a list",
		"self":                     "an object or a list",
		"duration('90s')":          "1m30s",
		"Now()":                    "2026-03-01T12:00:00Z",
		"Now() + duration('1h')":   "2026-03-01T13:00:00Z",
		"self.metadata.name":       `"` + celPod().Name + `"`,
		"self.metadata.labels.app": `"web"`,
		"self.spec.terminationGracePeriodSeconds + 1":         "the number 31",
		"self.status.reason":                                  `""`, // a field that is not set has its zero value
		"self.metadata.deletionTimestamp":                     "nothing",
		"self.metadata.creationTimestamp":                     "2026-03-01T11:59:00Z",
		"self.spec.hostNetwork":                               "false",
		"has(self.spec.nodeSelector)":                         "false",
		"self.spec.containers.size()":                         "the number 1",
		"self.spec.containers[0].livenessProbe.httpGet.port":  `"http"`,
		"self.spec.containers[0].readinessProbe.httpGet.port": "the number 80",
		// Functions of KWOK.
		"UnixSecond(self.metadata.creationTimestamp)":       "the number 1.77236634e+09",
		"'1970-01-01T00:01:00Z'.UnixSecond()":               "the number 60",
		"SinceSecond(self)":                                 "the number 60",
		"self.SinceSecond()":                                "the number 60",
		"self.metadata.creationTimestamp.SinceSecond()":     "the number 60",
		"SinceSecond('2026-03-01T11:00:00Z')":               "the number 3600",
		"Quantity('1500m')":                                 "the number 1.5",
		"'2Ki'.Quantity()":                                  "the number 2048",
		"Quantity(3)":                                       "the number 3",
		"Quantity(0.5)":                                     "the number 0.5",
		"self.spec.containers[0].resources.requests['cpu']": "the number 1.5",
		"self.spec.containers[0].resources.requests.cpu + Quantity('500m')":               "the number 2",
		"self.spec.containers[0].resources.requests.memory / Quantity('512Mi')":           "the number 2",
		"Quantity('1') - Quantity('1m')":                                                  "the number 0.999",
		"int(Quantity('1Ki')) + 1":                                                        "the number 1025",
		"double(Quantity('1500m')) * 2.0":                                                 "the number 3",
		"string(Quantity('1500m')) + '!'":                                                 `"1500m!"`,
		"int(self.spec.containers[0].resources.requests.cpu)":                             "the number 2",
		"int('7') + int(2.5)":                                                             "the number 9",
		"Quantity('2') * 3":                                                               "the number 6",
		"-Quantity('2')":                                                                  "the number -2",
		"Quantity('1') > 0.5 && Quantity('1') == 1 && Quantity('1') != Quantity('1001m')": "true",
		// Errors.
		"self.nonsense":                "error: no such field: nonsense",
		"self.metadata.labels.absent":  "error: no such key: absent",
		"self.spec.containers[9].name": "error: index out of bounds: 9",
		"Quantity('x')":                `error: "x" is not a quantity`,
		"Quantity([1])":                "error: a list is not a quantity",
		"Quantity('1') / 0":            "error: divide by zero",
		"UnixSecond('yesterday')":      `error: parsing time "yesterday"`,
		"UnixSecond(1)":                "error: a int is not a time",
		"SinceSecond(1)":               "error: SinceSecond needs an object with a creationTimestamp, or a time",
		"1 / 0":                        "error: division by zero",
	} {
		p, err := compiler.Compile(expression, true)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		got, err := p.First(&expr.View{Object: celPod(), Now: stagetest.Start}, "s")
		if text := described(got, err); !strings.HasPrefix(text, want) || err == nil && text != want {
			t.Errorf("%s: %s, want %s", expression, text, want)
		}
	}
}

// TestCELOnMaps: on an unstructured object a field that is not set is an error, as in KWOK.
func TestCELOnMaps(t *testing.T) {
	compiler := &expr.CELCompiler{}
	for expression, want := range map[string]string{
		"self.spec.replicas":                 "the number 3",
		"self.spec.replicas == 3.0":          "true",
		"self.spec.weight":                   "the number 0.5",
		"self.spec.list.size()":              "the number 6",
		"self.spec.list[0]":                  `"b"`,
		"self.spec.none":                     "nothing",
		"self.metadata.labels['app']":        `"web"`,
		"has(self.spec.absent)":              "false",
		"self.spec.?absent.orValue('other')": `"other"`,
		"self.spec.absent":                   "error: no such key: absent",
		"UnixSecond(self.metadata.annotations.at) - UnixSecond(Now())": "the number 30",
		"self.kind": `"Widget"`,
	} {
		p, err := compiler.Compile(expression, true)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		got, err := p.First(viewOf(t, widget), "s")
		if text := described(got, err); text != want {
			t.Errorf("%s: %s, want %s", expression, text, want)
		}
	}
}

// TestCELCompileErrors: an expression that does not compile is an error with the expression and one reason.
func TestCELCompileErrors(t *testing.T) {
	compiler := &expr.CELCompiler{}
	for expression, want := range map[string]string{
		"self.":    `cel "self.": Syntax error`,
		"nonsense": `cel "nonsense": undeclared reference to 'nonsense'`,
		"f(1)":     `cel "f(1)": undeclared reference to 'f'`,
		"1 + 'a'":  `cel "1 + 'a'": found no matching overload for '_+_'`,
		"":         `cel "": `,
	} {
		_, err := compiler.Compile(expression, true)
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %s", expression, err, want)
		}
	}
	for _, expression := range []string{"Now() > timestamp('2026-01-01T00:00:00Z')", "SinceSecond(self) > 1.0", "self.SinceSecond() > 1.0", "[1].all(x, UnixSecond(Now()) > 1.0)"} {
		_, err := compiler.Compile(expression, false)
		if err == nil || !strings.HasSuffix(err.Error(), "the time may not be read in a selector: nothing wakes the object when time passes; use a delay") {
			t.Errorf("%s in a selector: %v", expression, err)
		}
	}
}

// TestCELReads: what an expression reads decides when it must be evaluated again.
func TestCELReads(t *testing.T) {
	compiler := &expr.CELCompiler{}
	for expression, want := range map[string][2]bool{
		"1 == 1": {false, false}, "self.metadata.name == ''": {true, false}, "Rand() < 0.5": {false, true},
		"[1, 2].exists(x, x == int(Rand() * 2.0))": {false, true}, "[1].all(self, self == 1)": {true, false}, "Rand() < 0.5 && has(self.spec)": {true, true},
	} {
		p, err := compiler.Compile(expression, false)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		if got := [2]bool{p.ReadsObject, p.ReadsChance}; got != want {
			t.Errorf("%s reads object and chance: %v, want %v", expression, got, want)
		}
	}
}

// TestCELRand: the random number depends on the seed, the object, the stage and how often it was played, and on nothing
// else.
func TestCELRand(t *testing.T) {
	p, err := (&expr.CELCompiler{}).Compile("Rand()", false)
	if err != nil {
		t.Fatal(err)
	}
	draw := func(seed uint64, uid string, stage string, played uint64, at time.Time) float64 {
		pod := celPod()
		v := &expr.View{Object: pod, Now: at, Seed: seed, UID: pod.UID, Played: played}
		v.UID = "x" + v.UID[:0]
		if uid != "" {
			v.UID = "y"
		}
		got, err := p.First(v, stage)
		if err != nil || got.Kind != expr.Number || got.Number < 0 || got.Number >= 1 {
			t.Fatalf("%v %v", got, err)
		}
		return got.Number
	}
	first := draw(1, "", "s", 0, stagetest.Start)
	if again := draw(1, "", "s", 0, stagetest.Start.Add(time.Hour)); again != first {
		t.Errorf("%v and then %v for the same key", first, again)
	}
	for what, other := range map[string]float64{
		"seed": draw(2, "", "s", 0, stagetest.Start), "object": draw(1, "y", "s", 0, stagetest.Start),
		"stage": draw(1, "", "t", 0, stagetest.Start), "plays": draw(1, "", "s", 1, stagetest.Start),
	} {
		if other == first {
			t.Errorf("another %s draws the same number", what)
		}
	}
}

// TestCELHolds: a condition must be a bool.
func TestCELHolds(t *testing.T) {
	compiler := &expr.CELCompiler{}
	for expression, want := range map[string]string{
		"self.metadata.labels.app == 'web'": "true",
		"self.metadata.labels.app == 'x'":   "false",
		"'true'":                            "gives a string and not a bool",
		"1":                                 "gives a int and not a bool",
		"null":                              "gives a null_type and not a bool",
		"self.nonsense == 1":                "no such field: nonsense",
		"self.nonsense == 1 || true":        "true", // CEL needs only one side
	} {
		p, err := compiler.Compile(expression, false)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		holds, err := p.Holds(&expr.View{Object: celPod(), Now: stagetest.Start}, "s")
		got := map[bool]string{true: "true", false: "false"}[holds]
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", expression, got, want)
		}
	}
}

// TestCELBudget: an expression that does too much is stopped and says so.
func TestCELBudget(t *testing.T) {
	p, err := (&expr.CELCompiler{}).Compile("[1,2,3,4,5,6,7,8,9,0].all(a, [1,2,3,4,5,6,7,8,9,0].all(b, [1,2,3,4,5,6,7,8,9,0].all(c, [1,2,3,4,5,6,7,8,9,0].all(d, [1,2,3,4,5,6,7,8,9,0].all(e, [1,2,3,4,5,6,7,8,9,0].all(f, self.metadata.name != 'x'))))))", false)
	if err != nil {
		t.Fatal(err)
	}
	v := &expr.View{Object: celPod(), Now: stagetest.Start}
	_, err = p.Holds(v, "s")
	var exceeded *limit.Exceeded
	if !errors.As(err, &exceeded) || v.Exceeded == nil || !strings.Contains(err.Error(), "the expression does too much: it is over the cost limit of 1000000") {
		t.Errorf("%v, exceeded %v", err, v.Exceeded)
	}
}
