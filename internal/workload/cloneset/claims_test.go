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

// TestClaims: a pod's claims are made before it, are the set's, and bear its instance-id.
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

// TestClaimsAreRepaired: a claim that somebody deletes before its pod has a node is made
// again once it is gone, but not if the pod is to go too.
func TestClaimsAreRepaired(t *testing.T) {
	w := newWorld(t, 1, claim("data"), claim("logs"))
	w.behaves = func(*corev1.Pod) behaviour { return behaviour{unbound: true} }
	w.settle()
	name := "data-web-" + instanceID("set", 0)
	w.delete(w.claims[name])
	w.expect("") // it is there still
	delete(w.claims, name)
	w.expect("create claim data-web-0")
	w.expect("")
	delete(w.claims, name)
	w.past.Taken = map[string]bool{name: true} // and is somebody else's now
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

	w = grown(t, 1, claim("data"))
	delete(w.claims, name) // whatever happened, the pod has its volume
	w.expect("")
}

// TestClaimsGoWithTheirPod: of a pod that is deleted first it is marked, then its claims
// are, and they are deleted when it is: who stops in between leaves nothing behind, and
// no pod that runs has a claim that goes.
func TestClaimsGoWithTheirPod(t *testing.T) {
	for _, stays := range []bool{true, false} { // for a while, or not
		w := grown(t, 2, claim("data"))
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
			w.vanish(w.name(1))
			w.edit(replicas(2)) // nobody takes a claim that is to go
			w.expect("create claim data-web-2 then create 2, delete claim data-web-1")
			continue
		}
		w.expect("delete claim data-web-1")
		w.expect("")
		w.vanish(w.name(1))
		w.settle()
		if len(w.claims) != 1 || len(w.pods) != 1 {
			t.Errorf("claims %v, pods %v", sorted(w.claims), sorted(w.pods))
		}
	}
}

// TestClaimsStayWithTheirPod: while a pod that is to be deleted has to stay, because no other
// is available, its claims stay too; and they are kept when somebody takes its mark away.
// Found by the search (case 9722): a template that never runs came between.
func TestClaimsStayWithTheirPod(t *testing.T) {
	w := grown(t, 2, claim("data"), maxUnavailable(number(1)))
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

// TestClaimsAreUsedAgain: who takes the place of a pod that somebody else deleted has its
// instance-id, its name and its claims; until that one is gone its place is kept.
func TestClaimsAreUsedAgain(t *testing.T) {
	w := grown(t, 2, claim("data"))
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

// TestClaimsAreNotUsedAgain: where that is not wanted the claims of a pod that is gone go
// too, and its successor has others.
func TestClaimsAreNotUsedAgain(t *testing.T) {
	w := grown(t, 2, claim("data"), noReuse)
	stays := true
	w.behaves = func(*corev1.Pod) behaviour { return behaviour{stays: stays} }
	w.remove(0)
	w.expect("create claim data-web-2 then create 2") // nobody waits for its claims
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

// TestClaimsOfAReleasedPod: a pod whose labels do not match any more leaves its claims to the
// set. Where claims are not used again they are deleted, which the API does once the pod
// is gone; else they wait for whoever may bear the pod's name next.
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
		if w.past.Taken[w.name(0)] != true { // it bears its name still
			t.Errorf("%s had effect, pods %v", w.acts(d), sorted(w.pods))
		}
		w.expect("create claim data-web-1 then create 1")
		w.settle()
		w.vanish(w.name(0))
		w.past.Taken = nil
		w.edit(replicas(2))
		w.expect("create 0") // with the claim
	}
}

// TestClaimsOfAnAdoptedPod: a pod that a set of the same name left behind is adopted with its
// claims, these first; a claim that somebody lets go, or that is of another set, is left alone.
func TestClaimsOfAnAdoptedPod(t *testing.T) {
	w := grown(t, 1, claim("data"), claim("logs"))
	letGo := func(o metav1.Object) { o.SetOwnerReferences(nil) }
	loose := w.claims["logs-web-"+instanceID("set", 0)].DeepCopy()
	letGo(loose)
	w.put(loose)
	w.expect("") // its pod stays
	for _, c := range w.claims {
		c = c.DeepCopy()
		letGo(c)
		w.put(c)
	}
	other := loose.DeepCopy()
	other.Name = "data-other-" + instanceID("set", 0)
	w.put(other)
	w.change(0, func(p *corev1.Pod) { letGo(p) })
	w.expect("Adopted claim data-web-0, Adopted claim logs-web-0")
	w.expect("Adopted 0")
	w.expect("")
	if metav1.IsControlledBy(w.claims[other.Name], w.set) {
		t.Error("another set's claim is adopted")
	}
}

// TestClaimsAfterTheirPod: a claim that the cache shows when its pod was adopted already is adopted too;
// one that was released, of a pod that the set has created, is not.
func TestClaimsAfterTheirPod(t *testing.T) {
	for name, age := range map[string]time.Duration{"older than the set": -time.Minute, "as old": 0, "younger": time.Minute} {
		t.Run(name, func(t *testing.T) {
			w := grown(t, 1, claim("data"), claim("logs"))
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

// TestPoisonedClaims: claims that go, or whose pod's name is somebody else's, hold up nobody
// (kruise #1099, #1433).
func TestPoisonedClaims(t *testing.T) {
	w := grown(t, 1, claim("data"))
	stay := w.claims["data-web-"+instanceID("set", 0)].DeepCopy()
	w.specify(0)
	w.settle() // there is another
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

// TestClaimTemplates: other claim templates alone make no revision; with another template
// pods are made anew to have them, but where they are to be changed in place only.
func TestClaimTemplates(t *testing.T) {
	size := func(size string) func(*v1alpha1.CloneSetSpec) {
		return func(s *v1alpha1.CloneSetSpec) {
			s.VolumeClaimTemplates[0].Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
		}
	}
	w := grown(t, 1, inPlace, claim("data"), size("1Gi"))
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

// TestClaimTemplatesThatMeanTheSame: another order, another label, what the API fills in, and
// templates that a rollback leaves as they are cost no pod its place, nor its volumes.
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
		w := grown(t, 1, inPlace, claim("data"), claim("logs"))
		uid := w.pod(0).UID
		if edit == nil { // others with the second template, and then the first one again, and a third
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

// TestClaimsOfTheOldRevision: pods that keep the old template have the claims that it
// mounts, although the set has them no more (kruise #1872).
func TestClaimsOfTheOldRevision(t *testing.T) {
	w := grown(t, 2, claim("data"))
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
