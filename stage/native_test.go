package stage

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/rehearse-k8s/rehearse/api/kruise"
)

// drawPod draws pods that differ in everything the built-in stages read.
func drawPod(t *rapid.T) *corev1.Pod {
	p := newPod()
	p.UID = types.UID(rapid.SampledFrom([]string{"u1", "u2"}).Draw(t, "uid"))
	p.Generation = rapid.Int64Range(0, 3).Draw(t, "generation")
	p.Spec.NodeName = rapid.SampledFrom([]string{"node-1", "dual"}).Draw(t, "node")
	p.Spec.HostNetwork = rapid.Bool().Draw(t, "hostNetwork")
	p.Labels = drawMap(t, "labels")
	p.Annotations = drawMap(t, "annotations")
	if rapid.Bool().Draw(t, "deleting") {
		deleting(p)
	}
	if rapid.Bool().Draw(t, "held") {
		held(p)
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "owners") {
		p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{
			Kind: rapid.SampledFrom([]string{"Job", "ReplicaSet", ""}).Draw(t, "owner"), Name: fmt.Sprint(i),
		})
	}
	p.Status.Phase = rapid.SampledFrom([]corev1.PodPhase{"", corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed}).Draw(t, "phase")
	p.Status.PodIP = rapid.SampledFrom([]string{"", "10.128.0.11"}).Draw(t, "podIP")
	if rapid.Bool().Draw(t, "started") {
		at := metav1.NewTime(start.Add(-5 * time.Second))
		p.Status.StartTime = &at
	}
	gates := []corev1.PodConditionType{"example.com/a", "example.com/b"}
	for _, gate := range gates[:rapid.IntRange(0, 2).Draw(t, "gates")] {
		p.Spec.ReadinessGates = append(p.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: gate})
	}
	p.Status.Conditions = nil
	for _, c := range append([]corev1.PodConditionType{
		corev1.PodReady, corev1.ContainersReady, corev1.PodInitialized, corev1.PodScheduled, corev1.PodReadyToStartContainers,
	}, gates...) {
		if !rapid.Bool().Draw(t, string(c)) {
			continue
		}
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type:               c,
			Status:             rapid.SampledFrom([]corev1.ConditionStatus{"True", "False", "Unknown"}).Draw(t, "status"),
			Reason:             rapid.SampledFrom([]string{"", "Because"}).Draw(t, "reason"),
			Message:            rapid.SampledFrom([]string{"", "some text"}).Draw(t, "message"),
			LastTransitionTime: metav1.NewTime(start.Add(-time.Duration(rapid.IntRange(1, 99).Draw(t, "ago")) * time.Second)),
		})
	}
	p.Spec.RestartPolicy = rapid.SampledFrom([]corev1.RestartPolicy{"", corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}).Draw(t, "restartPolicy")
	if rapid.Bool().Draw(t, "deadline") {
		p.Spec.ActiveDeadlineSeconds = ptr.To(rapid.Int64Range(1, 1<<31-1).Draw(t, "activeDeadlineSeconds"))
	}
	if rapid.Bool().Draw(t, "observed") {
		p.Status.ObservedGeneration = p.Generation
	}
	for _, key := range rapid.SliceOfN(rapid.SampledFrom([]string{
		annotationRunFor, annotationRunFor + ".app-0", annotationRunFor + ".init-1",
	}), 0, 2).Draw(t, "run-for") {
		setAnnotation(p, key, rapid.SampledFrom([]string{"", "0s", "90s", "1m", "1h0m5s", "5", "1s1m", "123456h", "1.5s", "x"}).Draw(t, "time"))
	}
	for _, key := range rapid.SliceOfN(rapid.SampledFrom([]string{annotationExitCode, annotationExitCode + ".app-0", annotationExitCode + ".init-0"}), 0, 2).Draw(t, "exit-code") {
		setAnnotation(p, key, rapid.SampledFrom([]string{"0", "1", "OOMKilled", "2,0", "0, 3"}).Draw(t, "code"))
	}
	for _, key := range rapid.SliceOfN(rapid.SampledFrom([]string{annotationPull, annotationEvict}), 0, 2).Draw(t, "faults") {
		setAnnotation(p, key, rapid.SampledFrom([]string{"true", "app-0", "cpu"}).Draw(t, "which"))
	}
	for range rapid.IntRange(0, 1).Draw(t, "update in place") {
		setAnnotation(p, kruise.AnnotationInPlaceState, rapid.SampledFrom([]string{
			"", "{", "null", "[]", `"updateEnvFromMetadata"`, `{"updateEnvFromMetadata":true}`,
			`{"updateEnvFromMetadata":true,"lastContainerStatuses":{"app-0":{"containerID":"x://1"}}}`,
			`{"lastContainerStatuses": {"app-1": {"containerID": "x:\/\/1"}, "init-0": 3}, "updateEnvFromMetadata": true}`,
			`{"lastContainerStatuses":{"init-0":{"containerID":"x://1"}},"updateEnvFromMetadata":true}`,
			`{"updateEnvFromMetadata":"true","lastContainerStatuses":{"app-0":{"containerID":"x://1"}}}`,
			`{"updateEnvFromMetadata":true,"lastContainerStatuses":["x://1"]}`,
			`{"updateenvfrommetadata":true,"updateEnvFromMetadata":false,"lastContainerStatuses":{"app-0":{"containerID":"x://1"}}}`,
		}).Draw(t, "state of the update"))
	}
	p.Spec.Containers, p.Status.ContainerStatuses = drawContainers(t, "app", 1)
	p.Spec.InitContainers, p.Status.InitContainerStatuses = drawContainers(t, "init", 0)
	return p
}

func setAnnotation(p *corev1.Pod, key, value string) {
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations[key] = value
}

func drawMap(t *rapid.T, label string) map[string]string {
	return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b/c", "go", "with space", `quote"d`}),
		rapid.SampledFrom([]string{"", "x", "yes", "3", "true", "5s"}), 0, 3).Draw(t, label)
}

func drawContainers(t *rapid.T, prefix string, least int) (spec []corev1.Container, status []corev1.ContainerStatus) {
	at := metav1.NewTime(start.Add(-9 * time.Second))
	for i := range rapid.IntRange(least, 2).Draw(t, prefix) {
		c := corev1.Container{Name: fmt.Sprintf("%s-%d", prefix, i), Image: "img:1"}
		if prefix == "init" && rapid.Bool().Draw(t, "sidecar") {
			c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}
		quantities := func(label string) (r corev1.ResourceRequirements) {
			for _, list := range []*corev1.ResourceList{&r.Requests, &r.Limits} {
				if cpu := rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, label); cpu != "" {
					*list = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
				}
			}
			return r
		}
		c.Resources = quantities("resources")
		if rapid.Bool().Draw(t, "resize policy") {
			c.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
		}
		spec = append(spec, c)
		s := corev1.ContainerStatus{Name: c.Name, Image: rapid.SampledFrom([]string{c.Image, "img:0"}).Draw(t, "image"), Ready: rapid.Bool().Draw(t, "ready"), Started: ptr.To(rapid.Bool().Draw(t, "is started")), ContainerID: rapid.SampledFrom([]string{"", "x://1"}).Draw(t, "id")}
		switch rapid.SampledFrom([]string{"none", "waiting", "running", "terminated"}).Draw(t, "state") {
		case "none":
			continue
		case "waiting":
			s.State.Waiting = &corev1.ContainerStateWaiting{
				Reason:  rapid.SampledFrom([]string{"ContainerCreating", "PodInitializing", "CrashLoopBackOff", "ErrImagePull", "ImagePullBackOff"}).Draw(t, "waiting"),
				Message: rapid.SampledFrom([]string{"", "back-off 10s restarting", "back-off 2m40s restarting", "back-off 5m0s", "back-off 1h0s x", "back-off m5s x", "back-off 7s x", "x back-off 7s x"}).Draw(t, "words"),
			}
		case "running":
			s.State.Running = &corev1.ContainerStateRunning{StartedAt: at}
		case "terminated":
			s.State.Terminated = &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error", StartedAt: at, FinishedAt: at}
		}
		if rapid.Bool().Draw(t, "restarted") {
			s.RestartCount = rapid.Int32Range(0, 3).Draw(t, "restartCount")
			ago := metav1.NewTime(at.Add(-time.Duration(rapid.IntRange(0, 400).Draw(t, "last")) * time.Second))
			s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, FinishedAt: ago}
		}
		if rapid.Bool().Draw(t, "resources known") {
			s.Resources = ptr.To(quantities("known resources"))
			s.AllocatedResources = s.Resources.Requests
		}
		status = append(status, s)
	}
	return spec, status
}

func drawNode(t *rapid.T) *corev1.Node {
	n := newNode()
	n.Labels, n.Annotations = drawMap(t, "labels"), drawMap(t, "annotations")
	if rapid.Bool().Draw(t, "kept not ready") {
		n.Labels = map[string]string{"node-not-ready.stage.kwok.x-k8s.io": rapid.SampledFrom([]string{"", "true", "no"}).Draw(t, "not-ready label")}
	}
	quantities := func(label string) corev1.ResourceList {
		var out corev1.ResourceList
		for _, name := range []corev1.ResourceName{"cpu", "memory", "pods", "nvidia.com/gpu"} {
			if rapid.Bool().Draw(t, label+string(name)) {
				if out == nil {
					out = corev1.ResourceList{}
				}
				out[name] = resource.MustParse(rapid.SampledFrom([]string{"4", "8Gi", "500m"}).Draw(t, "quantity"))
			}
		}
		return out
	}
	n.Status.Capacity, n.Status.Allocatable = quantities("capacity "), quantities("allocatable ")
	n.Status.NodeInfo.Architecture = rapid.SampledFrom([]string{"", "arm64"}).Draw(t, "architecture")
	n.Status.NodeInfo.KubeletVersion = rapid.SampledFrom([]string{"", "v1.30.0"}).Draw(t, "version")
	n.Status.Phase = rapid.SampledFrom([]corev1.NodePhase{"", corev1.NodeRunning}).Draw(t, "phase")
	if rapid.Bool().Draw(t, "addressed") {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}
	}
	for _, c := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeDiskPressure, "Custom"} {
		if rapid.Bool().Draw(t, string(c)) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
				Type: c, Status: rapid.SampledFrom([]corev1.ConditionStatus{"True", "False", "Unknown"}).Draw(t, "status"),
				Reason:             rapid.SampledFrom([]string{"", "Because"}).Draw(t, "reason"),
				Message:            rapid.SampledFrom([]string{"", "the label node-pressure.stage.kwok.x-k8s.io is set"}).Draw(t, "message"),
				LastTransitionTime: metav1.NewTime(start.Add(-time.Minute)),
			})
		}
	}
	for _, key := range rapid.SliceOfN(rapid.SampledFrom([]string{notReadyLabel, pressureLabel}), 0, 2).Draw(t, "durations") {
		if n.Annotations == nil {
			n.Annotations = map[string]string{}
		}
		n.Annotations[key+"/duration"] = rapid.SampledFrom([]string{"", "30s", "1h5s", "1.5s"}).Draw(t, "duration")
	}
	return n
}

// TestNativeAnswersAsJQ holds every closure on typed objects to what the jq
// program it stands for says on the object's JSON.
func TestNativeAnswersAsJQ(t *testing.T) {
	programs := map[Kind][]string{KindPod: {openGates, exitAt, restartAt, deadlineAt, unobserved, news, waitsFor}, KindNode: {downUntil, pressureUntil}}
	for canonical := range metaNatives {
		programs[KindPod] = append(programs[KindPod], canonical)
		programs[KindNode] = append(programs[KindNode], canonical)
	}
	for canonical := range podNatives {
		programs[KindPod] = append(programs[KindPod], canonical)
	}
	for canonical := range nodeNatives {
		programs[KindNode] = append(programs[KindNode], canonical)
	}
	for kind := range programs {
		for _, field := range []string{"status", "reason", "message"} {
			programs[kind] = append(programs[kind],
				`.status.conditions.[] | select(.type == "Ready") | .`+field,
				`.status.conditions[]|select( .type=="example.com/a" )|.`+field)
		}
		if kind == KindPod {
			programs[kind] = append(programs[kind],
				`.status.containerStatuses[] | select(.ready == false) | .state.running.startedAt`,
				`.status.containerStatuses[] | select(.ready == true) | .name`,
				`.status.containerStatuses[] | select(.started != true) | .name`,
				`.status.containerStatuses[] | select(.name == false) | .name`)
		}
		programs[kind] = append(programs[kind], `.metadata.labels.go`, `.metadata.labels["b/c"]`,
			`.metadata.annotations."with space"`, `.metadata.annotations["quote\"d"]`, `.metadata.labels.absent`,
			`.metadata.annotations["b/c"] // .metadata.labels.go`)
	}
	for kind, texts := range programs {
		slices.Sort(texts)
		for _, text := range texts {
			t.Run(kind.String()+" "+text, func(t *testing.T) {
				fast, err := compileQuery(text, kind, false)
				if err != nil {
					t.Fatal(err)
				}
				if fast.native == nil {
					t.Fatalf("%s has no closure", text)
				}
				slow := &query{text: text, code: fast.code}
				rapid.Check(t, func(t *rapid.T) { sameAnswers(t, kind, fast, slow) })
			})
		}
	}
}

func sameAnswers(t *rapid.T, kind Kind, fast, slow *query) {
	var o Object = drawPod(t)
	if kind == KindNode {
		o = drawNode(t)
	}
	v := &view{object: o, now: start}
	if got, want := fast.exists(v), slow.exists(v); got != want {
		t.Fatalf("exists: closure %v, jq %v", got, want)
	}
	wanted := []string{"", "True", "False", "Unknown", "Running", "Pending", "yes", "3", "true", "false", "1", "0", "Job", "Because", "x://1"}
	if all, err := slow.results(v); err == nil {
		for _, result := range all {
			if text, ok := result.(string); ok {
				wanted = append(wanted, text)
			}
		}
	}
	for _, want := range wanted {
		if got, want := fast.in(v, []string{want}), slow.in(v, []string{want}); got != want {
			t.Fatalf("in %q: fast %v, jq %v", wanted, got, want)
		}
	}
	got, want := fast.first(v), slow.first(v)
	if got.kind == valueTime { // a time without its text
		got = value{kind: valueText, text: got.at.UTC().Format(time.RFC3339)}
	}
	if got != want {
		t.Fatalf("first: fast %+v, jq %+v", got, want)
	}
}

// TestKubeletStepEqualsItsRenderedTemplate: a template that only calls Kubelet is not rendered; the step must
// change the status as the rendered template would.
func TestKubeletStepEqualsItsRenderedTemplate(t *testing.T) {
	for name := range kubeletSteps {
		t.Run(name, func(t *testing.T) {
			template, err := parseTemplate(`{{ Kubelet "`+name+`" . }}`, KindPod)
			if err != nil {
				t.Fatal(err)
			}
			slow := patch{template: template, kind: types.StrategicMergePatchType}
			fast := slow
			fast.step = kubeletStep(name)
			rapid.Check(t, func(t *rapid.T) { samePatches(t, KindPod, &fast, &slow) })
		})
	}
}

// TestKubeletStepOf: comments do not keep a template that only calls Kubelet from running without rendering;
// anything else does.
func TestKubeletStepOf(t *testing.T) {
	for template, want := range map[string]bool{
		`{{ Kubelet "create" . }}`:                                   true,
		"{{ Kubelet \"create\" . }}\n":                               true,
		"# ours\n\n{{Kubelet \"create\" .}}\n# more\n":               true,
		"{{/* ours */}}\n{{ Kubelet \"create\" . }}\n":               true,
		"# {{ .x }}\n{{ Kubelet \"create\" . }}\n":                   false,
		"{{ Kubelet \"create\" . }}\nphase: Running\n":               false,
		"{{ Kubelet \"create\" . }}{{ .x }}":                         false,
		"{{/* a */}}{{ .x }}{{/* b */}}\n{{ Kubelet \"create\" . }}": false,
		`{{ Kubelet "nothing" . }}`:                                  false,
		`{{ Kubelet "create" .spec }}`:                               false,
		"":                                                           false,
	} {
		if got := kubeletStepOf(template) != nil; got != want {
			t.Errorf("%q: step found: %v, want %v", template, got, want)
		}
	}
}

// TestBuiltinPodStagesCallKubelet: every status of a built-in pod stage comes from a Kubelet step, so there is
// one source for each.
func TestBuiltinPodStagesCallKubelet(t *testing.T) {
	for _, name := range []string{"pod-fast", "pod-general", "pod-chaos"} {
		set := mustBuiltin(t, name)
		for _, c := range set.pods {
			for _, op := range c.operations {
				if op.patch != nil && op.patch.step == nil {
					t.Errorf("%s: %s is rendered", name, c.name)
				}
			}
		}
	}
}

func samePatches(t *rapid.T, kind Kind, fast, slow *patch) {
	var o Object = drawPod(t)
	if kind == KindNode {
		o = drawNode(t)
	}
	m := moment{now: start, facts: fixedFacts{}, object: o}
	got, want := shallow(o), shallow(o)
	errFast, errSlow := fast.applyToStatus(got, kind, m), slow.applyToStatus(want, kind, m)
	if (errFast == nil) != (errSlow == nil) {
		t.Fatalf("code %v, template %v", errFast, errSlow)
	}
	if errFast != nil {
		return
	}
	options := cmp.Options{
		cmpopts.SortSlices(func(a, b corev1.PodCondition) bool { return a.Type < b.Type }),
		cmpopts.SortSlices(func(a, b corev1.NodeCondition) bool { return a.Type < b.Type }),
		cmpopts.SortSlices(func(a, b corev1.PodIP) bool { return a.IP < b.IP }),
		cmpopts.SortSlices(func(a, b corev1.HostIP) bool { return a.IP < b.IP }),
		cmpopts.EquateEmpty(),
	}
	switch got := got.(type) {
	case *corev1.Pod:
		if diff := cmp.Diff(want.(*corev1.Pod).Status, got.Status, options); diff != "" {
			t.Fatalf("status (-template +code):\n%s", diff)
		}
	case *corev1.Node:
		if diff := cmp.Diff(want.(*corev1.Node).Status, got.Status, options); diff != "" {
			t.Fatalf("status (-template +code):\n%s", diff)
		}
	}
}

// TestPlayLeavesTheObjectAlone: the object belongs to the informer's cache.
func TestPlayLeavesTheObjectAlone(t *testing.T) {
	sets := builtinSets(t)
	rapid.Check(t, func(t *rapid.T) {
		set := sets[rapid.SampledFrom([]string{"fast", "general"}).Draw(t, "set")]
		p := drawPod(t)
		before := p.DeepCopy()
		d := set.Decide(start, 1, p, Past{}, Scene{NodeReady: true})
		if _, err := set.Play(start, p, d, fixedFacts{}); err != nil && !badTime(p, err) {
			t.Fatal(err)
		}
		if !equality.Semantic.DeepEqual(before, p) {
			t.Fatalf("%s changed its object:\n%s", d.Stage, cmp.Diff(before, p))
		}
	})
}
