package cloneset

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/workload"
)

func noReuse(s *v1alpha1.CloneSetSpec) { s.ScaleStrategy.DisablePVCReuse = true }

// TestClaims checks that a pod's claims are created before it, are controlled by the set, and have the pod's
// instance-id.
func TestClaims(t *testing.T) {
	w := newWorld(t, 1, claim("data"), claim("logs"))
	w.expect("create revision")
	w.expect("create claim data-web-0 then create claim logs-web-0 then create 0")
	c := w.claims["data-web-"+instanceID("set", 0)]
	if c == nil || !metav1.IsControlledBy(c, w.set) || c.Labels["app"] != "web" || c.Labels[kruise.LabelInstanceID] != instanceID("set", 0) {
		t.Fatalf("claim %+v", c)
	}
	var volumes []string
	for _, v := range w.pod(0).Spec.Volumes {
		volumes = append(volumes, v.Name+"="+v.PersistentVolumeClaim.ClaimName)
	}
	if id := instanceID("set", 0); !slices.Equal(volumes, []string{"data=data-web-" + id, "logs=logs-web-" + id}) {
		t.Errorf("volumes %v", volumes)
	}
}

// TestClaimsAreRepaired checks that a claim that is deleted before its pod has a node is created again once it
// is gone, unless the pod will be deleted too.
func TestClaimsAreRepaired(t *testing.T) {
	w := newWorld(t, 1, claim("data"), claim("logs"))
	w.behaves = func(*corev1.Pod) behaviour { return behaviour{unbound: true} }
	w.settle()
	name := "data-web-" + instanceID("set", 0)
	w.delete(w.claims[name])
	w.expect("") // it still exists
	delete(w.claims, name)
	w.expect("create claim data-web-0")
	w.expect("")
	delete(w.claims, name)
	w.past.Taken = map[string]bool{name: true} // and another owner has the name now
	w.expect("")
	w.past.Taken = nil
	w.edit(replicas(0))
	w.expect("Marked 0")
	w.expect("Marked claim logs-web-0")
	w.expect("delete 0")
	w.settle()
	if len(w.claims) > 0 {
		t.Errorf("claims %v", sorted(w.claims))
	}

	w = newRunningWorld(t, 1, claim("data"))
	delete(w.claims, name) // from here on the pod has its volume
	w.expect("")
}

// TestClaimsGoWithTheirPod checks the order of a deletion: the pod is marked, then its claims, and the claims
// are deleted after the pod. So a crash in between leaves nothing behind, and no running pod has a terminating
// claim.
func TestClaimsGoWithTheirPod(t *testing.T) {
	for _, stays := range []bool{true, false} { // whether the pod stays terminating for a while
		w := newRunningWorld(t, 2, claim("data"))
		w.behaves = func(*corev1.Pod) behaviour { return behaviour{stays: stays} }
		w.change(1, func(p *corev1.Pod) { p.Annotations[kruise.AnnotationDeletionCost] = "-1" })
		w.edit(replicas(1))
		w.expect("Marked 1")
		if _, ok := w.pod(1).Labels[kruise.LabelSpecifiedDelete]; !ok {
			t.Error("the pod is not marked")
		}
		w.expect("Marked claim data-web-1")
		w.expect("delete 1")
		if !stays {
			w.removePod(w.name(1))
			w.edit(replicas(2)) // a claim that will be deleted is not reused
			w.expect("create claim data-web-2 then create 2, delete claim data-web-1")
			continue
		}
		w.expect("delete claim data-web-1")
		w.expect("")
		w.removePod(w.name(1))
		w.settle()
		if len(w.claims) != 1 || len(w.pods) != 1 {
			t.Errorf("claims %v, pods %v", sorted(w.claims), sorted(w.pods))
		}
	}
}

// TestClaimsStayWithTheirPod checks that the claims of a pod that is specified for deletion stay while the pod
// stays, because no other pod is available, and that they are kept when a user removes the pod's mark. Found
// by the search (case 9722): meanwhile the template changes to one that never runs.
func TestClaimsStayWithTheirPod(t *testing.T) {
	w := newRunningWorld(t, 2, claim("data"), maxUnavailable(number(1)))
	w.specify(0)
	w.expect("Marked claim data-web-0")
	w.change(1, func(p *corev1.Pod) {
		p.Status.Conditions = slices.DeleteFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	})
	w.expect("")
	w.change(0, func(p *corev1.Pod) { delete(p.Labels, kruise.LabelSpecifiedDelete) })
	w.expect("Marked claim data-web-0")
	w.expect("")
	if c := w.claims["data-web-"+instanceID("set", 0)]; c == nil || c.DeletionTimestamp != nil || c.Labels[kruise.LabelSpecifiedDelete] != "" {
		t.Errorf("claim %+v", c)
	}
}

// TestClaimsAreUsedAgain checks that the successor of a pod that another client deleted has its instance-id,
// its name and its claims, and that the place is kept until the pod is gone.
func TestClaimsAreUsedAgain(t *testing.T) {
	w := newRunningWorld(t, 2, claim("data"))
	was := w.claims["data-web-"+instanceID("set", 0)].UID
	stays := true
	w.behaves = func(*corev1.Pod) behaviour { return behaviour{stays: stays} }
	w.remove(0)
	if d := w.expect(""); !slices.ContainsFunc(d.Reasons, func(r workload.Reason) bool { return r.Code == "WaitsForClaims" }) {
		t.Errorf("reasons %v", d.Reasons)
	}
	stays = false
	w.runKubelet()
	w.expect("create 0")
	if c := w.claims["data-web-"+instanceID("set", 0)]; c == nil || c.UID != was || len(w.claims) != 2 {
		t.Errorf("claims %v", sorted(w.claims))
	}
	w.settle()
	w.fail(1)
	w.expect("delete 1")
	w.runKubelet()
	w.expect("create 1")
}

// TestClaimsAreNotUsedAgain checks that, if claims are not reused, those of a deleted pod are deleted too, and
// its successor has others.
func TestClaimsAreNotUsedAgain(t *testing.T) {
	w := newRunningWorld(t, 2, claim("data"), noReuse)
	stays := true
	w.behaves = func(*corev1.Pod) behaviour { return behaviour{stays: stays} }
	w.remove(0)
	w.expect("create claim data-web-2 then create 2") // its claims block no other pod
	stays = false
	w.runKubelet()
	if d := w.plan(); !strings.Contains(w.acts(d), "delete claim data-web-0") {
		t.Errorf("%s", w.acts(d))
	}
	w.settle()
	w.settle()
	if len(w.claims) != 2 || w.pod(0) != nil {
		t.Errorf("claims %v, pods %v", sorted(w.claims), sorted(w.pods))
	}
}

// TestClaimsOfAReleasedPod checks that a pod whose labels do not match any more leaves its claims to the set.
// If claims are not reused they are deleted, which the API server completes once the pod is gone; otherwise
// they wait for the next pod with that name.
func TestClaimsOfAReleasedPod(t *testing.T) {
	for again, want := range map[bool]string{true: "create 0", false: "create claim data-web-1 then create 1, delete claim data-web-0"} {
		w := newWorld(t, 1, claim("data"))
		w.set.Spec.ScaleStrategy.DisablePVCReuse = !again
		w.settle()
		w.change(0, func(p *corev1.Pod) { p.Labels["app"] = "debug" })
		w.expect("Disowned 0")
		d := w.expect(want)
		if !again {
			continue
		}
		if w.past.Taken[w.name(0)] != true { // the released pod still has the name
			t.Errorf("%s had effect, pods %v", w.acts(d), sorted(w.pods))
		}
		w.expect("create claim data-web-1 then create 1")
		w.settle()
		w.removePod(w.name(0))
		w.past.Taken = nil
		w.edit(replicas(2))
		w.expect("create 0") // with the claim
	}
}

// TestClaimsOfAnAdoptedPod checks that a pod of an earlier set with the same name is adopted after its claims;
// a claim without instance-id, or one of another set, is left alone.
func TestClaimsOfAnAdoptedPod(t *testing.T) {
	w := newRunningWorld(t, 1, claim("data"), claim("logs"))
	withoutOwner := func(o metav1.Object) { o.SetOwnerReferences(nil) }
	loose := w.claims["logs-web-"+instanceID("set", 0)].DeepCopy()
	withoutOwner(loose)
	w.put(loose)
	w.expect("") // its pod stays
	for _, c := range w.claims {
		c = c.DeepCopy()
		withoutOwner(c)
		w.put(c)
	}
	other := loose.DeepCopy()
	other.Name = "data-other-" + instanceID("set", 0)
	w.put(other)
	w.change(0, func(p *corev1.Pod) { withoutOwner(p) })
	w.expect("Adopted claim data-web-0, Adopted claim logs-web-0")
	w.expect("Adopted 0")
	w.expect("")
	if metav1.IsControlledBy(w.claims[other.Name], w.set) {
		t.Error("another set's claim is adopted")
	}
}

// TestClaimsAfterTheirPod checks that a claim that the cache shows after its pod was adopted is adopted too,
// and that a released claim of a pod that the set has created is not.
func TestClaimsAfterTheirPod(t *testing.T) {
	for name, age := range map[string]time.Duration{"older than the set": -time.Minute, "as old": 0, "younger": time.Minute} {
		t.Run(name, func(t *testing.T) {
			w := newRunningWorld(t, 1, claim("data"), claim("logs"))
			w.set.CreationTimestamp = metav1.NewTime(w.now)
			w.put(w.set)
			id := "before"
			if age > 0 {
				id = instanceID("set", 0)
			}
			w.change(0, func(p *corev1.Pod) {
				p.CreationTimestamp = metav1.NewTime(w.now.Add(age))
				p.Labels[kruise.LabelInstanceID] = id
			})
			for _, c := range w.claims {
				c = c.DeepCopy()
				delete(w.claims, c.Name)
				c.Name = strings.TrimSuffix(c.Name, instanceID("set", 0)) + id
				c.Labels[kruise.LabelInstanceID] = id
				c.OwnerReferences = nil
				w.put(c)
			}
			if age > 0 {
				w.expect("")
				return
			}
			w.expect("Adopted claim data-web-before, Adopted claim logs-web-before")
			w.expect("")
		})
	}
}

func TestClaimedBy(t *testing.T) {
	c := &Claim{Name: "data-of-web-x1", Instance: "x1"}
	if got := c.ClaimedBy(); !slices.Equal(got, []string{"web", "of-web"}) {
		t.Errorf("%q", got)
	}
	for _, c := range []*Claim{{Name: "data-web-x1"}, {Name: "data-web-x1", Instance: "x2"}, {Name: "x1", Instance: "x1"}, {Name: "-x1", Instance: "x1"}} {
		if got := c.ClaimedBy(); got != nil {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// TestPoisonedClaims checks that terminating claims, and claims whose pod name another owner uses, block no
// other pod (kruise #1099, #1433).
func TestPoisonedClaims(t *testing.T) {
	w := newRunningWorld(t, 1, claim("data"))
	stay := w.claims["data-web-"+instanceID("set", 0)].DeepCopy()
	w.specify(0)
	w.settle() // there is another pod
	stay.DeletionTimestamp, stay.Name = &metav1.Time{Time: w.now}, "data-web-"+instanceID("set", 7)
	stay.Labels[kruise.LabelInstanceID] = instanceID("set", 7)
	w.put(stay)
	left := stay.DeepCopy()
	left.DeletionTimestamp, left.Name = nil, "data-web-"+instanceID("set", 8)
	left.Labels[kruise.LabelInstanceID] = instanceID("set", 8)
	w.put(left)
	w.past.Taken = map[string]bool{w.name(8): true}
	w.edit(replicas(3))
	if d := w.plan(); d.Tally.Created != 2 || strings.Contains(w.acts(d), "create 7") || strings.Contains(w.acts(d), "create 8") {
		t.Errorf("%s", w.acts(d))
	}
}

// TestClaimTemplates checks that changed claim templates alone create no revision. With another pod template,
// pods are recreated to get them, unless the type is InPlaceOnly.
func TestClaimTemplates(t *testing.T) {
	size := func(size string) func(*v1alpha1.CloneSetSpec) {
		return func(s *v1alpha1.CloneSetSpec) {
			s.VolumeClaimTemplates[0].Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
		}
	}
	w := newRunningWorld(t, 1, inPlace, claim("data"), size("1Gi"))
	w.edit(size("2Gi"))
	w.settle()
	if len(w.revisions) != 1 {
		t.Errorf("revisions %v", sorted(w.revisions))
	}
	w.edit(image("web:2"))
	uid := w.pod(0).UID
	w.settle()
	pods := w.active()
	if len(pods) != 1 || pods[0].UID == uid || w.claims["data-web-"+pods[0].instance].Spec.Resources.Requests.Storage().String() != "2Gi" {
		t.Errorf("pods %s, claims %s", w.states(), asJSON(w.claims))
	}
	w.edit(strategy(v1alpha1.InPlaceOnly), size("3Gi"), image("web:3"))
	uid = pods[0].UID
	w.settle()
	if pods = w.active(); len(pods) != 1 || pods[0].UID != uid || w.updatedPods() != 1 {
		t.Errorf("pods %s", w.states())
	}
}

// TestClaimTemplatesThatMeanTheSame checks that claim templates in another order, with another label, with the
// API's defaults, or equal after a rollback recreate no pod.
func TestClaimTemplatesThatMeanTheSame(t *testing.T) {
	for name, edit := range map[string]func(*v1alpha1.CloneSetSpec){
		"order": func(s *v1alpha1.CloneSetSpec) { slices.Reverse(s.VolumeClaimTemplates) },
		"label": func(s *v1alpha1.CloneSetSpec) { s.VolumeClaimTemplates[0].Labels = map[string]string{"a": "b"} },
		"default": func(s *v1alpha1.CloneSetSpec) {
			s.VolumeClaimTemplates[0].Spec.VolumeMode = ptrTo(corev1.PersistentVolumeFilesystem)
		},
		"size":     func(s *v1alpha1.CloneSetSpec) { s.VolumeClaimTemplates[0].Spec.StorageClassName = ptrTo("fast") },
		"rollback": nil,
	} {
		w := newRunningWorld(t, 1, inPlace, claim("data"), claim("logs"))
		uid := w.pod(0).UID
		if edit == nil { // the second template, then the first one again, then a third
			w.edit(image("web:2"), func(s *v1alpha1.CloneSetSpec) { s.VolumeClaimTemplates[0].Spec.StorageClassName = ptrTo("fast") })
			w.settle()
			pods := w.active()
			if len(pods) != 1 || pods[0].UID == uid {
				t.Fatalf("%s", w.states())
			}
			uid = pods[0].UID
			w.edit(image("web:1"))
			w.settle()
			w.edit(image("web:3"))
		} else {
			w.edit(edit, image("web:2"))
		}
		w.settle()
		if pods := w.active(); len(pods) != 1 || w.updatedPods() != 1 || (pods[0].UID == uid) != (name != "size") {
			t.Errorf("%s: %s", name, w.states())
		}
	}
}

// TestClaimsOfTheOldRevision checks that new pods of an old revision have the claims that its template mounts,
// although the set does not have them any more (kruise #1872).
func TestClaimsOfTheOldRevision(t *testing.T) {
	w := newRunningWorld(t, 2, claim("data"))
	w.edit(func(s *v1alpha1.CloneSetSpec) {
		s.VolumeClaimTemplates, s.Template.Spec.Containers[0].VolumeMounts = nil, nil
	}, partition(number(2)))
	w.settle()
	w.edit(replicas(3), partition(number(3)))
	w.expect("create claim data-web-2 then create 2")
	w.settle()
	if len(w.pod(2).Spec.Volumes) != 1 {
		t.Errorf("volumes %+v", w.pod(2).Spec.Volumes)
	}
	w.edit(partition(number(0)))
	w.settle()
	if w.updatedPods() != 3 || len(w.claims) != 0 {
		t.Errorf("%d are updated, claims %v", w.updatedPods(), sorted(w.claims))
	}
}
