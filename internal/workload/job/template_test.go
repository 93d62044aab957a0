package job

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"
)

// TestPodOfTemplate checks that a pod consists of its template, an owner and the tracking finalizer and, for
// an Indexed Job, of everything that contains its index.
func TestPodOfTemplate(t *testing.T) {
	j := newJob("p=2 c=3 indexed perindex=2", func(j *batchv1.Job) {
		spec := &j.Spec.Template.Spec
		j.Spec.Template.Annotations = map[string]string{"note": "kept"}
		j.Spec.Template.Finalizers = []string{"example.com/other"}
		spec.InitContainers = []corev1.Container{{Name: "init"}}
		spec.Containers = append(spec.Containers, corev1.Container{Name: "own", Env: []corev1.EnvVar{{Name: indexVariable, Value: "mine"}}})
	})
	template := j.Spec.Template.DeepCopy()
	pod := podFrom(j, "pi-1-x", 1, nil)
	if !equality.Semantic.DeepEqual(template, &j.Spec.Template) {
		t.Fatal("the template was changed")
	}
	if pod.Labels[batchv1.JobCompletionIndexAnnotation] != "1" || pod.Labels["job"] != "pi" {
		t.Errorf("labels %v", pod.Labels)
	}
	if a := pod.Annotations; a[batchv1.JobCompletionIndexAnnotation] != "1" || a["note"] != "kept" || a[batchv1.JobIndexFailureCountAnnotation] != "0" || len(a) != 3 {
		t.Errorf("annotations %v", a)
	}
	if pod.Spec.Hostname != "pi-1" || pod.Namespace != "default" || pod.Name != "pi-1-x" {
		t.Errorf("hostname %q, name %s/%s", pod.Spec.Hostname, pod.Namespace, pod.Name)
	}
	if !slices.Equal(pod.Finalizers, []string{"example.com/other", batchv1.JobTrackingFinalizer}) {
		t.Errorf("finalizers %v", pod.Finalizers)
	}
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "Job" || owner.APIVersion != "batch/v1" || owner.Name != "pi" || owner.UID != "job" || !*owner.BlockOwnerDeletion {
		t.Errorf("owner %+v", owner)
	}
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		if len(c.Env) != 1 || c.Env[0].Name != indexVariable {
			t.Errorf("container %s has %v", c.Name, c.Env)
			continue
		}
		if c.Name == "own" {
			if c.Env[0].Value != "mine" {
				t.Errorf("its own variable is %v", c.Env[0])
			}
		} else if path := c.Env[0].ValueFrom.FieldRef.FieldPath; path != "metadata.labels['batch.kubernetes.io/job-completion-index']" {
			t.Errorf("container %s reads %s", c.Name, path)
		}
	}

	plain := podFrom(newJob("p=1 c=1", func(j *batchv1.Job) {
		j.Spec.Template.Finalizers = []string{batchv1.JobTrackingFinalizer}
	}), "pi-x", noIndex, nil)
	if plain.Spec.Hostname != "" || plain.Annotations != nil || len(plain.Labels) != 1 || len(plain.Spec.Containers[0].Env) != 0 || len(plain.Finalizers) != 1 {
		t.Errorf("a pod without an index: %+v", plain)
	}
}

// TestNames checks that pod names are DNS labels with the same prefix as upstream's, unique per Job, slot and
// attempt, and always the same.
func TestNames(t *testing.T) {
	for _, c := range []struct {
		job          string
		index        int
		prefix, want string
	}{
		{"pi", noIndex, "pi-", ""},
		{"pi", 7, "pi-7-", ""},
		{strings.Repeat("a", 63), noIndex, strings.Repeat("a", 52) + "-", ""},
		{strings.Repeat("a", 63), 99999, strings.Repeat("a", 46) + "-99999-", ""},
		{strings.Repeat("a", 45) + ".-bcdefghij", 99999, strings.Repeat("a", 45) + "-99999-", ""},
		{strings.Repeat("a", 253), 1 << 30, "", ""},
	} {
		j := newJob("p=1 c=1")
		j.Name = c.job
		name := podName(j, c.index, 3, 0)
		if !strings.HasPrefix(name, c.prefix) || len(name) > longestName || len(validation.IsDNS1123Subdomain(name)) > 0 {
			t.Errorf("job %s: %s", c.job, name)
		}
	}
	seen := map[string]string{}
	for _, uid := range []types.UID{"a", "b", "a/1", "7d0f3c1e-7a4d-4f0e-9a55-d7b1f2a0c001", "7d0f3c1e-7a4d-4f0e-9a55-d7b1f2a0c002"} {
		j := newJob("p=1 c=1")
		j.UID = uid
		for slot := range 5000 {
			for attempt := range 4 {
				name, key := podName(j, noIndex, slot, attempt), fmt.Sprint(uid, " ", slot, " ", attempt)
				if other, ok := seen[name]; ok {
					t.Fatalf("%s and %s are both %s", key, other, name)
				}
				seen[name] = key
			}
		}
	}
	if a, b := podName(newJob(""), 3, 3, 1), podName(newJob("p=9 c=9 indexed"), 3, 3, 1); a != b {
		t.Errorf("%s, then %s", a, b)
	}
}

// TestTakenNamesAreSkipped checks that a name that a pod has, or that is known to be taken, is not used again.
func TestTakenNamesAreSkipped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := newJob("p=1 c=9 indexed")
		p := &plan{State: State{Job: j}, job: j}
		p.Past.Taken = map[string]bool{}
		slot := rapid.IntRange(0, 8).Draw(t, "slot")
		n := rapid.IntRange(0, 6).Draw(t, "attempts")
		for attempt := range n {
			name := podName(j, slot, slot, attempt)
			if rapid.Bool().Draw(t, "taken") {
				p.Past.Taken[name] = true
			} else {
				p.Pods = append(p.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}})
			}
		}
		slices.SortFunc(p.Pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
		if got, want := p.freeName(slot, slot), podName(j, slot, slot, n); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	})
}

// TestSlotsStay checks that, while no pod is created, a Job without indexes gives the next pod the same name
// in all phases: finished, recorded, released, counted. A number that no pod has, because its create is in
// flight, is used again.
func TestSlotsStay(t *testing.T) {
	next := func(job, pods string) string {
		j, all := newJob(job), newPods(pods)
		for _, pod := range all { // a, b and c are the first three that were made
			pod.Name = podName(j, noIndex, int(pod.UID[0]-'a'), 0)
		}
		slices.SortFunc(all, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
		d := Plan(noon, State{Job: j, Pods: all, Limits: atOnce()})
		for _, a := range d.Actions {
			if a.Verb == "create" {
				return a.Object.GetName()
			}
		}
		t.Fatalf("%s: %s: no pod is created", job, pods)
		return ""
	}
	slot := func(n int) string { return podName(newJob("p=9 c=9"), noIndex, n, 0) }
	for _, c := range []struct {
		job, pods string
		slot      int
	}{
		{"p=9 c=9", "a: R, b: R, c: R", 3},
		{"p=9 c=9", "a: S, b: F, c: R", 3},
		{"p=9 c=9 uncounted-succeeded=a uncounted-failed=b", "a: S, b: F, c: R", 3},
		{"p=9 c=9 uncounted-succeeded=a uncounted-failed=b", "a: S untracked, b: F untracked, c: R", 3},
		{"p=9 c=9 uncounted-failed=b succeeded=1", "a: S untracked, b: F, c: R", 3},
		{"p=9 c=9 succeeded=1 failed=1", "a: S untracked, b: F untracked, c: R", 3},
		{"p=9 c=9 succeeded=1 failed=1", "c: R", 3},
		{"p=9 c=9", "b: R, c: R", 0},
		{"p=9 c=9 succeeded=1", "a: S untracked, c: R", 1},
	} {
		if got := next(c.job, c.pods); got != slot(c.slot) {
			t.Errorf("%s: %s: %s, want %s", c.job, c.pods, got, slot(c.slot))
		}
	}
}
