package cloneset_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/viewtest"
)

const (
	tooMany       = "no pod of CloneSet default/web is created beyond replicas and maxSurge"
	tooFew        = "no available pod of CloneSet default/web is taken out of service when no more than replicas minus maxUnavailable are available"
	blockedDelete = "no pod of CloneSet default/web is deleted while its preDelete hook blocks it"
	blockedUpdate = "no pod of CloneSet default/web is updated in place while its inPlaceUpdate hook blocks it"
	tooEarly      = "no pod of CloneSet default/web becomes Normal before its preNormal hook is complete"
	inTraffic     = "no image of a pod of CloneSet default/web is changed while it takes traffic"
	tooSoon       = "no pod of CloneSet default/web takes traffic again before its changed containers have restarted"
	beyondBounds  = "no pod of CloneSet default/web is updated in place beyond the partition"
)

// TestAlways plays correct and incorrect controllers. Exactly the expected invariants must be violated, at
// once, with the expected message.
func TestAlways(t *testing.T) {
	for name, c := range map[string]struct {
		spec map[string]any
		play func(r *run)
		want []string
	}{
		"as many pods as wanted": {replicas(2), func(r *run) {
			r.pod("a", r.now())
			r.pod("b", r.now())
		}, nil},
		"one surplus pod": {replicas(1), func(r *run) {
			r.pod("a", r.now())
			r.pod("b", r.now())
		}, []string{tooMany + ": step 12, create b, decided at step 11 with the CloneSet at revision 11 and pods at 0: now there are 2 (a, b), and at most 1 are allowed"}},
		"one more for the update": {replicas(1, "maxSurge", int64(1)), func(r *run) {
			r.pod("a", r.now())
			r.pod("b", r.now())
		}, nil},
		"no surge while it is paused": {replicas(1, "maxSurge", int64(1), "paused", true), func(r *run) {
			r.pod("a", r.now())
			r.pod("b", r.now())
		}, []string{tooMany}},
		"surge while it is paused, for a pod marked for deletion": {replicas(1, "maxSurge", int64(2), "paused", true), func(r *run) {
			r.pod("a", r.now())
			r.label("a", "apps.kruise.io/specified-delete", "true")
			r.patch("someone", "a", 0)
			r.pod("b", r.now())
		}, nil},
		"surge while it is paused, for a pod in podsToDelete": {replicas(1, "maxSurge", int64(2), "paused", true), func(r *run) {
			r.pod("a", r.now())
			r.deliver(r.spec("scaleStrategy.podsToDelete", []any{"a"}))
			r.pod("b", r.now())
		}, nil},
		"two surge pods for one": {replicas(1, "maxSurge", int64(2), "paused", true), func(r *run) {
			r.pod("a", r.now())
			r.deliver(r.spec("scaleStrategy.podsToDelete", []any{"a"}))
			r.pod("b", r.now())
			r.pod("c", r.now())
		}, []string{tooMany}},
		"replicas were lowered and the controller has not observed it": {replicas(2), func(r *run) {
			r.pod("a", r.now())
			r.spec("replicas", int64(1))
			r.pod("b", r.now())
		}, nil},
		"replicas were lowered and the controller has observed it": {replicas(2), func(r *run) {
			r.pod("a", r.now())
			r.deliver(r.spec("replicas", int64(1)))
			r.pod("b", r.now())
		}, []string{tooMany}},
		"observed during a reconcile": {replicas(2), func(r *run) {
			decided := r.now()
			r.pod("a", decided)
			r.deliver(r.spec("replicas", int64(1)))
			r.pod("b", decided)
		}, nil},
		"a pod that is being deleted is replaced": {replicas(1), func(r *run) {
			r.pod("a", r.now())
			r.remove("someone", "a", 0)
			r.pod("b", r.now())
		}, nil},
		"a pod that waits for its hook counts": {hooked(replicas(1)), func(r *run) {
			r.pod("a", r.now())
			r.state("a", "PreparingDelete", r.deliverAllPods())
			r.pod("b", r.deliverAllPods())
		}, []string{tooMany}},
		"unless it is excluded": {hooked(replicas(1)), func(r *run) {
			r.set["metadata"].(map[string]any)["labels"] = map[string]any{"apps.kruise.io/cloneset-scaling-exclude-preparing-delete": "true"}
			r.deliver(r.wrote("user", "patch", "clonesets.apps.kruise.io", "", "web", "S", 0))
			r.pod("a", r.now())
			r.state("a", "PreparingDelete", r.deliverAllPods())
			r.pod("b", r.deliverAllPods())
		}, nil},
		"the next CloneSet with the name has its own record": {replicas(1), func(r *run) {
			r.pod("a", r.now())
			r.create("S2", replicas(1))
			r.pod("b", r.now())
		}, nil},

		"one becomes unavailable at a time": {replicas(3), func(r *run) {
			r.createReady("a", "b", "c")
			r.state("a", "Updating", r.deliverAllPods(), "InPlaceUpdateReady=False")
		}, nil},
		"two at a time": {replicas(3), func(r *run) {
			r.createReady("a", "b", "c")
			decided := r.deliverAllPods()
			r.state("a", "Updating", decided, "InPlaceUpdateReady=False")
			r.remove("c", "b", decided)
		}, []string{tooFew + ": step 23, delete b, decided at step 21 with the CloneSet at revision 11 and pods at 21: it was available, 1 others are (c), and 2 must be"}},
		"the event of the first is late": {replicas(3), func(r *run) {
			r.createReady("a", "b", "c")
			r.state("a", "Updating", r.deliverAllPods(), "InPlaceUpdateReady=False")
			r.state("b", "Updating", r.now(), "InPlaceUpdateReady=False")
		}, []string{tooFew}},
		"a user deleted another one, and the controller has not observed it": {replicas(3), func(r *run) {
			r.createReady("a", "b", "c")
			r.deliverAllPods()
			r.remove("someone", "a", 0)
			r.remove("c", "b", r.now())
		}, nil},
		"a user deleted another one, and the controller has observed it": {replicas(3), func(r *run) {
			r.createReady("a", "b", "c")
			r.deliverPod(r.remove("someone", "a", 0))
			r.remove("c", "b", r.now())
		}, []string{tooFew}},
		"an unavailable pod is deleted too": {replicas(3), func(r *run) {
			r.createReady("a", "b")
			r.pod("c", r.deliverAllPods())
			r.remove("c", "c", r.deliverAllPods())
		}, nil},
		"there are surplus pods": {replicas(3), func(r *run) {
			r.createReady("a", "b", "c")
			r.deliver(r.spec("replicas", int64(1)))
			decided := r.deliverAllPods()
			r.remove("c", "a", decided)
			r.remove("c", "b", decided)
		}, nil},
		"not ready for long enough": {func() map[string]any { s := replicas(2); s["minReadySeconds"] = int64(10); return s }(), func(r *run) {
			r.createReady("a", "b")
			r.Clock += 20 * time.Second
			r.ready("b")
			r.Clock += 5 * time.Second
			r.remove("c", "a", r.now())
		}, []string{tooFew}},
		"ready for long enough": {func() map[string]any { s := replicas(2); s["minReadySeconds"] = int64(10); return s }(), func(r *run) {
			r.createReady("a", "b")
			r.Clock += 20 * time.Second
			r.remove("c", "a", r.now())
		}, nil},

		"the preDelete hook blocks it": {hooked(replicas(1)), func(r *run) {
			r.pod("a", r.now())
			r.label("a", preDelete, "yes")
			r.patch("someone", "a", 0)
			r.remove("c", "a", r.deliverAllPods())
		}, []string{blockedDelete}},
		"another value is no handler": {hooked(replicas(1)), func(r *run) {
			r.pod("a", r.now())
			r.label("a", preDelete, "no")
			r.patch("someone", "a", 0)
			r.remove("c", "a", r.deliverAllPods())
		}, nil},
		"another client need not ask the hook": {hooked(replicas(1)), func(r *run) {
			r.pod("a", r.now())
			r.label("a", preDelete, "yes")
			r.patch("someone", "a", 0)
			r.remove("someone", "a", 0)
		}, nil},
		"the hook was removed, and the controller has not observed it": {hooked(replicas(1)), func(r *run) {
			r.pod("a", r.now())
			r.label("a", preDelete, "yes")
			r.patch("someone", "a", 0)
			r.spec("lifecycle", nil)
			r.remove("c", "a", r.deliverAllPods())
		}, nil},
		"the inPlaceUpdate hook blocks it": {hooked(replicas(1)), func(r *run) {
			r.createReady("a")
			r.label("a", inPlace, "yes")
			r.patch("someone", "a", 0)
			r.state("a", "Updating", r.deliverAllPods(), "InPlaceUpdateReady=False")
		}, []string{blockedUpdate}},
		"the inPlaceUpdate hook does not block it any more": {hooked(replicas(1)), func(r *run) {
			r.createReady("a")
			r.label("a", inPlace, "yes")
			r.patch("someone", "a", 0)
			r.state("a", "PreparingUpdate", r.deliverAllPods())
			r.label("a", inPlace, "")
			r.patch("someone", "a", 0)
			r.state("a", "Updating", r.deliverAllPods(), "InPlaceUpdateReady=False")
		}, nil},
		"the preNormal hook is not complete": {hooked(replicas(1)), func(r *run) {
			r.pod("a", r.now())
			r.label("a", preNormal, "yes")
			r.patch("someone", "a", 0)
			r.state("a", "Normal", r.deliverAllPods())
		}, []string{tooEarly}},
		"the preNormal hook is complete": {hooked(replicas(1)), func(r *run) {
			r.pod("a", r.now())
			r.label("a", preNormal, "yes")
			r.pods["a"]["metadata"].(map[string]any)["finalizers"] = []any{preNormal}
			r.patch("someone", "a", 0)
			r.state("a", "Normal", r.deliverAllPods())
		}, nil},
		"an update in place bypasses the preNormal hook": {hooked(replicas(1)), func(r *run) {
			r.pod("a", r.now())
			r.state("a", "Updating", r.deliverAllPods())
			r.state("a", "Normal", r.deliverAllPods())
		}, []string{tooEarly}},
		"a pod that was Normal becomes Normal again": {hooked(replicas(1)), func(r *run) {
			r.createReady("a")
			r.state("a", "Updating", r.deliverAllPods())
			r.state("a", "Normal", r.deliverAllPods())
		}, nil},

		"an image is changed while the pod takes traffic": {replicas(1), func(r *run) {
			r.createReady("a")
			r.image("a", "web:2")
			r.patch("c", "a", r.deliverAllPods())
		}, []string{inTraffic}},
		"an update in place, step by step": {replicas(1), func(r *run) {
			r.createReady("a")
			r.state("a", "Updating", r.deliverAllPods(), "InPlaceUpdateReady=False", "Ready=False")
			r.image("a", "web:2")
			r.patch("c", "a", r.deliverAllPods())
			r.pods["a"]["status"].(map[string]any)["containerStatuses"] = []any{map[string]any{"name": "main", "containerID": "second"}}
			r.patch("kubelet", "a", 0)
			r.state("a", "Normal", r.deliverAllPods(), "InPlaceUpdateReady=True")
		}, nil},
		"it ends too soon": {replicas(1), func(r *run) {
			r.createReady("a")
			r.state("a", "Updating", r.deliverAllPods(), "InPlaceUpdateReady=False", "Ready=False")
			r.image("a", "web:2")
			r.patch("c", "a", r.deliverAllPods())
			r.state("a", "Normal", r.deliverAllPods(), "InPlaceUpdateReady=True")
		}, []string{tooSoon}},
		"a rollback, and a crash in between restarted the container from the old spec": {replicas(1), func(r *run) {
			r.createReady("a")
			r.state("a", "Updating", r.deliverAllPods(), "InPlaceUpdateReady=False", "Ready=False")
			r.image("a", "web:2")
			r.patch("c", "a", r.deliverAllPods())
			r.restartFromOldSpec("a")
			r.image("a", "web:1")
			r.patch("c", "a", r.deliverAllPods())
			r.state("a", "Normal", r.deliverAllPods(), "InPlaceUpdateReady=True")
		}, nil},
		"a crash restarted the container from the old spec": {replicas(1), func(r *run) {
			r.createReady("a")
			r.state("a", "Updating", r.deliverAllPods(), "InPlaceUpdateReady=False", "Ready=False")
			r.image("a", "web:2")
			r.patch("c", "a", r.deliverAllPods())
			r.restartFromOldSpec("a")
			r.state("a", "Normal", r.deliverAllPods(), "InPlaceUpdateReady=True")
		}, []string{tooSoon}},
		"a rollback, and no container has to restart": {replicas(1), func(r *run) {
			r.createReady("a")
			r.state("a", "Updating", r.deliverAllPods(), "InPlaceUpdateReady=False", "Ready=False")
			r.image("a", "web:2")
			r.patch("c", "a", r.deliverAllPods())
			r.image("a", "web:1")
			r.patch("c", "a", r.deliverAllPods())
			r.state("a", "Normal", r.deliverAllPods(), "InPlaceUpdateReady=True")
		}, nil},

		"as many pods updated as the partition allows": {replicas(2, "partition", int64(1), "maxUnavailable", int64(2)), func(r *run) {
			r.createReady("a@web-0", "b@web-0")
			r.label("a", revisionLabel, "web-1")
			r.state("a", "Updating", r.deliverAllPods(), "InPlaceUpdateReady=False")
		}, nil},
		"one pod more is updated": {replicas(2, "partition", int64(1), "maxUnavailable", int64(2)), func(r *run) {
			r.createReady("a@web-0", "b@web-0")
			decided := r.deliverAllPods()
			for _, pod := range []string{"a", "b"} {
				r.label(pod, revisionLabel, "web-1")
				r.state(pod, "Updating", decided, "InPlaceUpdateReady=False")
			}
		}, []string{beyondBounds}},
		"the partition was raised, and the controller has not observed it": {replicas(2, "maxUnavailable", int64(2)), func(r *run) {
			r.createReady("a@web-0", "b@web-0")
			decided := r.deliverAllPods()
			r.spec("updateStrategy.partition", int64(2))
			for _, pod := range []string{"a", "b"} {
				r.label(pod, revisionLabel, "web-1")
				r.state(pod, "Updating", decided, "InPlaceUpdateReady=False")
			}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(c.spec)
			c.play(r)
			if len(r.violations) != len(c.want) {
				t.Fatalf("violated: %q, want %q", r.violations, c.want)
			}
			for n, want := range c.want {
				if !strings.HasPrefix(r.violations[n], want) {
					t.Errorf("violated: %q, want %q", r.violations[n], want)
				}
			}
		})
	}
}

func TestQuiescence(t *testing.T) {
	claim := func(r *run, pod string) {
		c := r.owned("data-" + pod)
		c.SetLabels(map[string]string{instanceLabel: r.pods[pod]["metadata"].(map[string]any)["labels"].(map[string]any)[instanceLabel].(string)})
		r.others["persistentvolumeclaims"] = append(r.others["persistentvolumeclaims"], c)
	}
	for name, c := range map[string]struct {
		spec map[string]any
		play func(r *run)
		want string
	}{
		"nothing was done":                {replicas(1), func(*run) {}, "there are 0 active pods (), and 1 are wanted"},
		"converged":                       {replicas(2), func(r *run) { r.createReady("a", "b"); r.setStatus(2, 2) }, ""},
		"the status is wrong":             {replicas(2), func(r *run) { r.createReady("a", "b"); r.setStatus(2, 1) }, "its status shows readyReplicas 1 instead of 2"},
		"the status is of an older spec":  {replicas(1), func(r *run) { r.createReady("a"); r.setStatus(1, 1); r.spec("paused", true) }, "observedGeneration"},
		"one surplus pod":                 {replicas(1), func(r *run) { r.createReady("a", "b"); r.setStatus(2, 2) }, "there are 2 active pods (a, b), and 1 are wanted"},
		"a pod has no node":               {replicas(1), func(r *run) { r.pod("a", r.now()); r.setStatus(1, 0) }, ""},
		"a pod with a node is not Normal": {replicas(1), func(r *run) { r.createReady("a"); r.label("a", stateLabel, "PreparingNormal"); r.setStatus(1, 0) }, `a is "PreparingNormal" and not available`},
		"InPlaceUpdateReady":              {replicas(1), func(r *run) { r.createReady("a"); r.status("a", "InPlaceUpdateReady=False"); r.setStatus(1, 0) }, `a is Normal, and InPlaceUpdateReady is "False"`},
		"its containers are not ready": {replicas(1), func(r *run) {
			r.createReady("a")
			r.status("a", "ContainersReady=False", "Ready=False")
			r.setStatus(1, 0)
		}, ""},
		"a key of the hook is left": {replicas(1), func(r *run) {
			r.createReady("a")
			r.status("a", `KruisePodReady=False [{"userAgent":"Lifecycle","key":"preUpdateHook"}]`, "Ready=False")
			r.setStatus(1, 0)
		}, "the hook's key preUpdateHook keeps it out of traffic"},
		"a key of another controller": {replicas(1), func(r *run) {
			r.createReady("a")
			r.status("a", `KruisePodReady=False [{"userAgent":"other","key":"mine"}]`, "Ready=False")
			r.setStatus(1, 0)
		}, ""},
		"the hook is not answered": {hooked(replicas(1)), func(r *run) {
			r.pod("a", r.now())
			r.ready("a")
			r.label("a", stateLabel, "PreparingNormal")
			r.setStatus(1, 0, "readyReplicas", int64(1), "updatedReadyReplicas", int64(1))
		}, ""},
		"the hook does not block the pod any more": {hooked(replicas(1)), func(r *run) {
			r.createReady("a")
			r.state("a", "PreparingDelete", r.deliverAllPods())
			r.setStatus(1, 0)
		}, `a is "PreparingDelete" and not available`},
		"a finalizer is left": {hooked(replicas(1)), func(r *run) {
			r.createReady("a")
			r.pods["a"]["metadata"].(map[string]any)["finalizers"] = []any{inPlace}
			r.patch("c", "a", r.deliverAllPods())
			r.spec("lifecycle", nil)
			r.setStatus(1, 1)
		}, "a controller added the finalizer hook/in-place to a"},
		"outdated pods are left": {replicas(2), func(r *run) { r.createReady("a@web-0", "b"); r.setStatus(2, 2, "updatedReplicas", int64(1)) },
			"1 pods are updated and 2 must be"},
		"while it is paused": {replicas(2, "paused", true), func(r *run) {
			r.createReady("a@web-0", "b")
			r.setStatus(2, 2, "updatedReplicas", int64(1), "updatedReadyReplicas", int64(1), "updatedAvailableReplicas", int64(1))
		}, ""},
		"the one to be updated waits for its hook": {hooked(replicas(2, "partition", int64(1), "maxUnavailable", int64(2))), func(r *run) {
			r.createReady("a@web-0", "b@web-0")
			r.label("a", preDelete, "yes")
			r.state("a", "PreparingDelete", r.deliverAllPods())
			r.setStatus(2, 1, "readyReplicas", int64(2), "updatedReplicas", int64(0), "updatedReadyReplicas", int64(0), "updatedAvailableReplicas", int64(0),
				"expectedUpdatedReplicas", int64(1))
		}, ""},
		"it waits for its hook, and another one is to be updated too": {hooked(replicas(3, "partition", int64(1), "maxUnavailable", int64(2))), func(r *run) {
			r.createReady("a@web-0", "b@web-0", "c@web-0")
			r.label("a", preDelete, "yes")
			r.state("a", "PreparingDelete", r.deliverAllPods())
			r.setStatus(3, 2, "updatedReplicas", int64(0))
		}, "0 pods are updated and 2 must be; 1 available ones may become unavailable, and b, c could be updated"},
		"it waits for an update that is paused": {hooked(replicas(1, "paused", true)), func(r *run) {
			r.createReady("a@web-0")
			r.state("a", "PreparingUpdate", r.deliverAllPods())
			r.setStatus(1, 0)
		}, `a is "PreparingUpdate" and not available`},
		"the update cannot go on": {replicas(2), func(r *run) {
			r.createReady("a@web-0")
			r.pod("b", r.deliverAllPods())
			r.setStatus(2, 1, "updatedReplicas", int64(1), "updatedReadyReplicas", int64(0), "updatedAvailableReplicas", int64(0))
		}, ""},
		"the revision label is wrong": {replicas(1), func(r *run) { r.createReady("a"); r.image("a", "web:0"); r.setStatus(1, 1) }, `container main has image "web:0" instead of "web:1"`},
		"a user specified its deletion": {replicas(1), func(r *run) {
			r.createReady("a")
			r.label("a", "apps.kruise.io/specified-delete", "")
			r.spec("scaleStrategy.podsToDelete", []any{"a"})
			r.setStatus(1, 1)
		}, "a exists, and a user asked for its deletion"},
		"a claim is kept": {replicas(1), func(r *run) {
			r.createReady("a", "b")
			claim(r, "b")
			r.remove("someone", "b", 0)
			r.gone("b")
			r.setStatus(1, 1)
		}, ""},
		"a claim is left": {replicas(1), func(r *run) {
			r.createReady("a", "b")
			claim(r, "b")
			r.remove("c", "b", r.deliverAllPods())
			r.gone("b")
			r.setStatus(1, 1)
		}, "claim data-b is left, and a controller deleted its pod b"},
		"a claim is left that is not used again": {replicas(1), func(r *run) {
			r.spec("scaleStrategy.disablePVCReuse", true)
			r.createReady("a", "b")
			claim(r, "b")
			r.remove("someone", "b", 0)
			r.gone("b")
			r.setStatus(1, 1)
		}, "claim data-b is left, its pod is deleted, and claims are not reused"},
		"a claim of a pod that runs is gone": {replicas(1), func(r *run) {
			r.createReady("a")
			r.pods["a"]["spec"].(map[string]any)["volumes"] = []any{map[string]any{"name": "data", "persistentVolumeClaim": map[string]any{"claimName": "data-a"}}}
			r.wrote("c", "delete", "persistentvolumeclaims", "", "data-a", "x", r.deliverAllPods())
			r.setStatus(1, 1)
		}, "a runs, and a controller deleted its claim data-a"},
		"a claim of a pod without a node is gone": {replicas(1), func(r *run) {
			r.pod("a", r.now())
			r.pods["a"]["spec"].(map[string]any)["volumes"] = []any{map[string]any{"name": "data", "persistentVolumeClaim": map[string]any{"claimName": "data-a"}}}
			r.setStatus(1, 0)
		}, "a waits for a node, and its claim data-a does not exist"},
		"the claim of another owner is gone": {replicas(1), func(r *run) {
			r.pod("a", r.now())
			r.pods["a"]["spec"].(map[string]any)["volumes"] = []any{map[string]any{"name": "data", "persistentVolumeClaim": map[string]any{"claimName": "shared"}}}
			r.setStatus(1, 0)
		}, ""},
		"old revisions are left": {replicas(1), func(r *run) {
			r.spec("revisionHistoryLimit", int64(1))
			r.createReady("a")
			r.others["controllerrevisions.apps"] = append(r.others["controllerrevisions.apps"], r.owned("web-x"), r.owned("web-y"))
			r.setStatus(1, 1)
		}, "2 unused revisions exist (web-x, web-y), and at most 1 may"},
		"there is no condition": {replicas(1), func(r *run) { r.spec("progressDeadlineSeconds", int64(60)); r.createReady("a"); r.setStatus(1, 1) }, "progressDeadlineSeconds is set"},
		"its condition is wrong": {replicas(1), func(r *run) {
			r.spec("progressDeadlineSeconds", int64(60))
			r.createReady("a")
			r.setStatus(1, 1, "conditions", []any{map[string]any{"type": "Progressing", "status": "True", "reason": "CloneSetUpdated"}})
		}, "the reason of Progressing is CloneSetUpdated"},
		"it is being deleted": {replicas(1), func(r *run) {
			r.set["metadata"].(map[string]any)["deletionTimestamp"] = "2000-01-01T00:00:00Z"
			r.wrote("user", "delete", "clonesets.apps.kruise.io", "", "web", "S", 0)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(c.spec)
			c.play(r)
			r.check()
			viewtest.Check(t, r.invariants.AtQuiescence, r, c.want)
		})
	}
}

// restartFromOldSpec reports that the container of a pod has crashed and was restarted with the image web:1.
func (r *run) restartFromOldSpec(pod string) {
	r.pods[pod]["status"].(map[string]any)["containerStatuses"] = []any{map[string]any{
		"name": "main", "containerID": "second", "image": "web:1", "state": map[string]any{"running": map[string]any{}},
	}}
	r.patch("kubelet", pod, 0)
}
