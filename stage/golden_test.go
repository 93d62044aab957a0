package stage

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files again")

// life plays an object until no stage is left, and prints every step with its reason. It does what
// the engine does, without an API.
func life(t *testing.T, set *Set, o Object, most int, disturb func(step int, o Object) Object) string {
	t.Helper()
	var out bytes.Buffer
	now, past := stagetest.Start, Past{}
	for step := range most {
		if disturb != nil {
			o = disturb(step, o)
		}
		d := set.Decide(now, 1, o, past, Scene{NodeReady: true})
		past.Decided(&d)
		fmt.Fprintf(&out, "%s %s\n", now.Format("15:04:05.000"), d.String())
		if !d.Chosen() {
			break
		}
		if d.Due.After(now) {
			now = d.Due
			fmt.Fprintf(&out, "%s due\n", now.Format("15:04:05.000"))
		}
		e, err := set.Play(now, o, d, stagetest.Facts{})
		past = past.After(&d, now, e.Writes())
		if err != nil {
			fmt.Fprintf(&out, "  error: %v\n", err)
			break
		}
		for _, event := range e.Events {
			fmt.Fprintf(&out, "  event %s %s: %s\n", event.Type, event.Reason, event.Message)
		}
		if !e.Writes() {
			fmt.Fprintf(&out, "  changes nothing\n")
		}
		if e.Write != WriteNothing {
			what := map[Write]string{WriteStatus: "update status", WriteObject: "update"}[e.Write]
			fmt.Fprintf(&out, "  %s where uid=%s and resourceVersion=%s\n%s", what, e.UID, e.ResourceVersion, difference(o, e.Object))
			o = copyOf(e.Object)
			n, _ := strconv.Atoi(e.ResourceVersion)
			o.SetResourceVersion(strconv.Itoa(n + 1))
		}
		for i := range e.Requests {
			o = request(t, &out, o, &e.Requests[i])
		}
		if e.Delete {
			fmt.Fprintf(&out, "  delete where uid=%s\n", e.UID)
			break
		}
	}
	return out.String()
}

func copyOf(o Object) Object {
	switch o := o.(type) {
	case *corev1.Pod:
		return o.DeepCopy()
	case *corev1.Node:
		return o.DeepCopy()
	}
	return o.(*unstructured.Unstructured).DeepCopy()
}

// request prints a request, and applies it to the object if it targets the object.
func request(t *testing.T, out *bytes.Buffer, o Object, r *Request) Object {
	t.Helper()
	body, err := yaml.Marshal(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	verb := map[Verb]string{VerbPatch: "patch", VerbApply: "apply"}[r.Verb]
	if r.Subresource != "" {
		verb += " " + r.Subresource + " of"
	}
	fmt.Fprintf(out, "  %s %s %s as %s\n    %s\n", verb, r.Kind, r.Name, r.Type, strings.ReplaceAll(strings.TrimSpace(string(body)), "\n", "\n    "))
	if !r.Own {
		return o
	}
	values, err := patched(ValuesOf(o), r.Type, r.Body, KindOf(o))
	if err != nil {
		t.Fatal(err)
	}
	after := Object(&unstructured.Unstructured{Object: values})
	if KindOf(o) == KindNode {
		n := &corev1.Node{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(values, n); err != nil {
			t.Fatal(err)
		}
		after = n
	}
	n, _ := strconv.Atoi(o.GetResourceVersion())
	after.SetResourceVersion(strconv.Itoa(n + 1))
	return after
}

// difference returns the lines of the YAML that a write changes.
func difference(before, after Object) string {
	lines := func(o Object) string {
		parts := map[string]any{"finalizers": o.GetFinalizers()}
		switch o := o.(type) {
		case *corev1.Pod:
			parts["status"] = o.Status
		case *corev1.Node:
			parts["labels"], parts["status"] = o.Labels, o.Status
		case *unstructured.Unstructured:
			parts["annotations"], parts["spec"], parts["status"] = o.GetAnnotations(), o.Object["spec"], o.Object["status"]
		}
		data, _ := yaml.Marshal(parts)
		return string(data)
	}
	a, b := strings.Split(lines(before), "\n"), strings.Split(lines(after), "\n")
	var out bytes.Buffer
	// The longest common subsequence; the inputs are small, so a simple algorithm suffices.
	table := make([][]int, len(a)+1)
	for i := range table {
		table[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				table[i][j] = table[i+1][j+1] + 1
			} else {
				table[i][j] = max(table[i+1][j], table[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			i, j = i+1, j+1
		case i < len(a) && (j == len(b) || table[i+1][j] >= table[i][j+1]):
			fmt.Fprintf(&out, "    - %s\n", a[i])
			i++
		default:
			fmt.Fprintf(&out, "    + %s\n", b[j])
			j++
		}
	}
	return out.String()
}

func gates(p *corev1.Pod) {
	p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}}
}

// openGate is a readiness gate that its owner has set to True.
func openGate(p *corev1.Pod) {
	gates(p)
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: "example.com/gate", Status: corev1.ConditionTrue})
}

func sidecar(p *corev1.Pod) {
	always := corev1.ContainerRestartPolicyAlways
	p.Spec.InitContainers = []corev1.Container{{Name: "setup", Image: "busybox"}, {Name: "proxy", Image: "envoy", RestartPolicy: &always}}
}

func TestGoldenLives(t *testing.T) {
	fast := mustBuiltin(t)
	own := func(file string) *Set {
		data, err := os.ReadFile(filepath.Join("testdata", "stages", file))
		if err != nil {
			t.Fatal(err)
		}
		stages, err := Load(file, data)
		if err != nil {
			t.Fatal(err)
		}
		set, err := Compile(stages)
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	for name, c := range map[string]struct {
		set     *Set
		pod     *corev1.Pod
		disturb func(step int, o Object) Object
	}{
		"pod":                      {set: fast, pod: stagetest.NewPod()},
		"pod-host-network":         {set: fast, pod: stagetest.NewPod(func(p *corev1.Pod) { p.Spec.HostNetwork, p.Spec.NodeName = true, "dual" })},
		"pod-sidecar":              {set: fast, pod: stagetest.NewPod(sidecar)},
		"pod-no-address":           {set: fast, pod: stagetest.NewPod(func(p *corev1.Pod) { p.UID = "homeless" })},
		"pod-gate":                 {set: fast, pod: stagetest.NewPod(gates)},
		"pod-job":                  {set: fast, pod: stagetest.NewPod(stagetest.OwnedByJob, sidecar)},
		"pod-deleted":              {set: fast, pod: stagetest.NewPod(stagetest.Running, stagetest.Deleting)},
		"pod-deleted-held":         {set: fast, pod: stagetest.NewPod(stagetest.Running, stagetest.Deleting, stagetest.WithFinalizer, stagetest.OwnedByJob), disturb: releaseAt(2)},
		"pod-deleted-held-pending": {set: fast, pod: stagetest.NewPod(stagetest.Deleting, stagetest.WithFinalizer), disturb: releaseAt(2)},
		"pod-gate-closed":          {set: fast, pod: stagetest.NewPod(openGate, stagetest.Running), disturb: closeGate},
		"pod-marked-not-ready":     {set: fast, pod: stagetest.NewPod(stagetest.Running), disturb: markNotReady},
		"finalizers-and-status":    {set: own("finalizers.yaml"), pod: stagetest.NewPod()},
		"steps":                    {set: own("steps.yaml"), pod: stagetest.NewPod()},
		"loop":                     {set: own("loop.yaml"), pod: stagetest.NewPod()},
	} {
		t.Run(name, func(t *testing.T) {
			got := life(t, c.set, c.pod, 6, c.disturb)
			golden(t, name, got)
		})
	}
}

// releaseAt removes the finalizers at a step, as their owner would.
func releaseAt(at int) func(int, Object) Object {
	return func(step int, o Object) Object {
		if step == at-1 {
			p := o.(*corev1.Pod).DeepCopy()
			p.Finalizers, p.ResourceVersion = nil, "50"
			return p
		}
		return o
	}
}

func setReady(o Object, t corev1.PodConditionType, status corev1.ConditionStatus, version string) Object {
	p := o.(*corev1.Pod).DeepCopy()
	p.ResourceVersion = version
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == t {
			p.Status.Conditions[i].Status = status
			p.Status.Conditions[i].LastTransitionTime = metav1.NewTime(stagetest.Start.Add(-time.Second))
		}
	}
	return p
}

// closeGate sets a pod's gate to False and, a step later, to True again.
func closeGate(step int, o Object) Object {
	switch step {
	case 0:
		return setReady(o, "example.com/gate", corev1.ConditionFalse, "20")
	case 1:
		return setReady(o, "example.com/gate", corev1.ConditionTrue, "30")
	}
	return o
}

// markNotReady does what the node lifecycle controller does to the pods of a node whose lease has
// expired.
func markNotReady(step int, o Object) Object {
	if step == 0 {
		return setReady(o, corev1.PodReady, corev1.ConditionFalse, "20")
	}
	return o
}
