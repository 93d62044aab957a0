package stage

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rehearse-k8s/rehearse/internal/stage/kubelet"
	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func said(pairs ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for i := 0; i < len(pairs); i += 2 {
			stagetest.SetAnnotation(p, pairs[i], pairs[i+1])
		}
	}
}

func policy(r corev1.RestartPolicy) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.RestartPolicy = r }
}

// inits are an init container, a sidecar and another init container.
func inits(p *corev1.Pod) {
	sidecar(p)
	p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: "migrate", Image: "busybox"})
}

// changed edits the pod before a step, as another client would.
func changed(steps map[int]func(*corev1.Pod)) func(int, Object) Object {
	return func(step int, o Object) Object {
		edit := steps[step]
		if edit == nil {
			return o
		}
		p := o.(*corev1.Pod).DeepCopy()
		edit(p)
		n, _ := strconv.Atoi(p.ResourceVersion)
		p.ResourceVersion = strconv.Itoa(n + 1)
		return p
	}
}

func label(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{key: value} }
}

func deleteAfter(d time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(stagetest.Start.Add(d))), ptr.To(int64(30))
	}
}

func TestGoldenGeneralLives(t *testing.T) {
	general := mustBuiltin(t, "pod-general", "pod-chaos")
	for name, c := range map[string]struct {
		pod     *corev1.Pod
		most    int
		disturb func(step int, o Object) Object
	}{
		"plain": {pod: stagetest.NewPod(), most: 4},
		"init":  {pod: stagetest.NewPod(inits), most: 9},
		"gate": {pod: stagetest.NewPod(gates), most: 6, disturb: changed(map[int]func(*corev1.Pod){
			2: openGate,
			3: func(p *corev1.Pod) {
				p.Status.Conditions = setReady(p, "example.com/gate", "False", "9").(*corev1.Pod).Status.Conditions
			},
			4: func(p *corev1.Pod) {
				p.Status.Conditions = setReady(p, "example.com/gate", "True", "9").(*corev1.Pod).Status.Conditions
			},
		})},
		"node-back": {pod: stagetest.NewPod(), most: 4, disturb: changed(map[int]func(*corev1.Pod){
			2: func(p *corev1.Pod) {
				p.Status.Conditions = setReady(p, corev1.PodReady, "False", "9").(*corev1.Pod).Status.Conditions
			},
		})},
		"job":         {pod: stagetest.NewPod(stagetest.OwnedByJob, sidecar, policy("Never")), most: 9},
		"job-fails":   {pod: stagetest.NewPod(stagetest.OwnedByJob, policy("OnFailure"), said(kubelet.AnnotationExitCode, "1,1,0")), most: 9},
		"job-run-for": {pod: stagetest.NewPod(stagetest.OwnedByJob, policy("Never"), said(kubelet.AnnotationRunFor, "1m", kubelet.AnnotationExitCode, "3")), most: 4},
		"crash-loop":  {pod: stagetest.NewPod(said(kubelet.AnnotationRunFor, "2s", kubelet.AnnotationExitCode, "1")), most: 16},
		"crash-loop-forgotten": {pod: stagetest.NewPod(said(kubelet.AnnotationRunFor, "2s", kubelet.AnnotationExitCode, "1")), most: 8, disturb: changed(map[int]func(*corev1.Pod){
			5: said(kubelet.AnnotationRunFor, "10m"),
		})},
		"oom": {pod: stagetest.NewPod(policy("Never"), said(kubelet.AnnotationRunFor, "5s", kubelet.AnnotationExitCode, "OOMKilled")), most: 4},
		"two-containers": {pod: stagetest.NewPod(policy("OnFailure"), func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "log", Image: "log"})
		}, said(kubelet.AnnotationRunFor+".app", "30s", kubelet.AnnotationRunFor+".log", "50s", kubelet.AnnotationExitCode+".log", "2,0")), most: 9},
		"sidecar-restarts": {pod: stagetest.NewPod(sidecar, said(kubelet.AnnotationRunFor+".proxy", "10s")), most: 9},
		"init-fails":       {pod: stagetest.NewPod(inits, said(kubelet.AnnotationExitCode+".setup", "1,1,0")), most: 7},
		"init-fails-never": {pod: stagetest.NewPod(inits, policy("Never"), said(kubelet.AnnotationExitCode+".setup", "1")), most: 5},
		"image-pull": {pod: stagetest.NewPod(said(kubelet.AnnotationImagePullFails, "true")), most: 7, disturb: changed(map[int]func(*corev1.Pod){
			5: func(p *corev1.Pod) { p.Annotations = nil },
		})},
		"deadline":         {pod: stagetest.NewPod(said(kubelet.AnnotationRunFor, "1m"), func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To(int64(90)) }), most: 9},
		"deadline-pending": {pod: stagetest.NewPod(said(kubelet.AnnotationImagePullFails, "app"), func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To(int64(10)) }), most: 9},
		"evicted":          {pod: stagetest.NewPod(sidecar), most: 6, disturb: changed(map[int]func(*corev1.Pod){4: said(kubelet.AnnotationEvict, "ephemeral-storage")})},
		"new-image": {pod: stagetest.NewPod(), most: 5, disturb: changed(map[int]func(*corev1.Pod){
			2: func(p *corev1.Pod) { p.Generation, p.Spec.Containers[0].Image = 2, "nginx:1.28" },
		})},
		"new-image-not-there": {pod: stagetest.NewPod(), most: 8, disturb: changed(map[int]func(*corev1.Pod){
			2: func(p *corev1.Pod) {
				image(0, "nginx:1.28")(p)
				stagetest.SetAnnotation(p, kubelet.AnnotationImagePullFails, "true")
			},
			5: func(p *corev1.Pod) { p.Annotations = nil },
		})},
		"new-image-for-crash-loop": {pod: stagetest.NewPod(said(kubelet.AnnotationRunFor, "2s", kubelet.AnnotationExitCode, "1")), most: 8, disturb: changed(map[int]func(*corev1.Pod){
			4: func(p *corev1.Pod) { image(0, "nginx:1.28")(p); p.Annotations = nil },
		})},
		"new-image-of-sidecar": {pod: stagetest.NewPod(sidecar), most: 9, disturb: changed(map[int]func(*corev1.Pod){
			5: func(p *corev1.Pod) { p.Spec.InitContainers[1].Image, p.Generation = "envoy:2", 2 },
		})},
		"environment":      {pod: stagetest.NewPod(), most: 5, disturb: changed(map[int]func(*corev1.Pod){2: environment("app")})},
		"deleted":          {pod: stagetest.NewPod(), most: 5, disturb: changed(map[int]func(*corev1.Pod){2: deleteAfter(30 * time.Second)})},
		"deleted-starting": {pod: stagetest.NewPod(), most: 5, disturb: changed(map[int]func(*corev1.Pod){1: deleteAfter(30 * time.Second)})},
		"deleted-held": {pod: stagetest.NewPod(stagetest.WithFinalizer), most: 5, disturb: changed(map[int]func(*corev1.Pod){
			2: deleteAfter(30 * time.Second), 3: func(p *corev1.Pod) { p.Finalizers = nil },
		})},
		"delays": {pod: stagetest.NewPod(stagetest.OwnedByJob, said("pod-create.stage.kwok.x-k8s.io/delay", "20s", "pod-ready.stage.kwok.x-k8s.io/delay", "1s",
			"pod-ready.stage.kwok.x-k8s.io/jitter-delay", "2s", "pod-complete.stage.kwok.x-k8s.io/delay", "1h")), most: 4},
		"bad-annotation": {pod: stagetest.NewPod(stagetest.OwnedByJob, said(kubelet.AnnotationExitCode, "often")), most: 4},
		"chaos":          {pod: stagetest.NewPod(label("pod-container-running-failed.stage.kwok.x-k8s.io", "true"), said("pod-container-running-failed.stage.kwok.x-k8s.io/exit-code", "9")), most: 5},
		"chaos-init":     {pod: stagetest.NewPod(inits, label("pod-init-container-running-failed.stage.kwok.x-k8s.io", "true")), most: 5},
	} {
		t.Run(name, func(t *testing.T) {
			golden(t, "general-"+name, life(t, general, c.pod, c.most, c.disturb))
		})
	}
}

// TestGeneralOverFast checks that the general stages do not change pods that already run or have
// finished.
func TestGeneralOverFast(t *testing.T) {
	fast, general := mustBuiltin(t, "pod-fast"), mustBuiltin(t, "pod-general")
	for name, p := range map[string]*corev1.Pod{
		"running": stagetest.NewPod(sidecar, gates), "ended": stagetest.NewPod(stagetest.OwnedByJob, sidecar),
		"failed": stagetest.NewPod(stagetest.WithFinalizer, stagetest.Deleting),
	} {
		p = playedUntil(t, fast, "", p)
		if d := general.Decide(stagetest.Start.Add(time.Hour), 1, p, Past{}, Scene{NodeReady: true}); d.Chosen() {
			t.Errorf("%s: %s", name, d.String())
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "lives", name+".txt")
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestTimeToRun checks that an invalid time to run is reported before the pod starts; otherwise the
// end of the pod would never be due.
func TestTimeToRun(t *testing.T) {
	general := mustBuiltin(t, "pod-general")
	for key, texts := range map[string]map[string]bool{
		kubelet.AnnotationRunFor:          {"90s": true, "1h30m": true, "0s": true, "soon": false, "1.5s": false, "30": false},
		kubelet.AnnotationRunFor + ".app": {"5m": true, "-5m": false},
		kubelet.AnnotationRunFor + "ever": {"soon": true}, // another owner's
	} {
		for text, ok := range texts {
			pod := stagetest.NewPod(said(key, text))
			decision := general.Decide(stagetest.Start, 1, pod, Past{}, Scene{NodeReady: true})
			_, err := general.Play(decision.Due, pod, decision, stagetest.Facts{})
			if want := fmt.Sprintf("annotation %s: %q is not a time in whole seconds", key, text); ok != (err == nil) || !ok && !strings.Contains(err.Error(), want) {
				t.Errorf("%s %q: %s: %v", key, text, decision.Stage, err)
			}
		}
	}
}

var timeToRun = regexp.MustCompile(`^([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,9}s)?$`)

// badTime reports whether an error is that of a pod with an invalid time to run.
func badTime(p *corev1.Pod, err error) bool {
	for key, text := range p.Annotations {
		if strings.HasPrefix(key, kubelet.AnnotationRunFor) && !timeToRun.MatchString(text) {
			return strings.Contains(err.Error(), "is not a time in whole seconds")
		}
	}
	return false
}
