package intern

import (
	"reflect"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// running returns a pod as the cluster of an `up` has it.
func running(name string) *corev1.Pod {
	now := metav1.NewTime(time.Unix(1_700_000_000, 0))
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-" + name), Namespace: "default", ResourceVersion: name, CreationTimestamp: now,
			Labels:          map[string]string{"app": "web", "tier": "front"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "rs", Controller: ptr.To(true)}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "m", Time: &now, FieldsV1: metav1.NewFieldsV1(`{"f:status":{}}`)}},
		},
		Spec: corev1.PodSpec{
			NodeName: "node-1", RestartPolicy: "Always", DNSPolicy: "ClusterFirst", ServiceAccountName: "default", SchedulerName: "default-scheduler",
			SecurityContext: &corev1.PodSecurityContext{FSGroup: ptr.To[int64](1)},
			Volumes: []corev1.Volume{{Name: "token-" + name, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				DefaultMode: ptr.To[int32](420),
				Sources:     []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: ptr.To[int64](3607), Path: "token"}}},
			}}}},
			Containers: []corev1.Container{{
				Name: "app", Image: "nginx", Command: []string{"nginx", "-g"},
				Resources:    corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}},
				VolumeMounts: []corev1.VolumeMount{{Name: "token-" + name, MountPath: "/token", ReadOnly: true}},
			}},
			Tolerations: []corev1.Toleration{{Key: "a", Operator: "Exists", TolerationSeconds: ptr.To[int64](300)}},
		},
		Status: corev1.PodStatus{
			Phase: "Running", HostIP: "10.0.0.1", PodIP: "10.1.0." + name, StartTime: &now,
			ContainerStatuses: []corev1.ContainerStatus{{Name: "app", Image: "nginx", ContainerID: "id-" + name, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}}},
		},
	}
	for _, kind := range []corev1.PodConditionType{"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: "True", LastTransitionTime: now})
	}
	return decoded(p)
}

// decoded returns a pod as it is read from its bytes, with its own copy of each string.
func decoded(p *corev1.Pod) *corev1.Pod {
	data, err := p.Marshal()
	if err != nil {
		panic(err)
	}
	out := &corev1.Pod{}
	if err := out.Unmarshal(data); err != nil {
		panic(err)
	}
	return out
}

// add lets an object share parts with the earlier ones and makes it the last one.
func add(s *Samples, name string, obj any) {
	s.Share(name, obj)
	s.Remember(name, obj)
}

// TestShareKeepsContent: whatever differs between two objects, neither of them changes.
func TestShareKeepsContent(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"nothing":       func(*corev1.Pod) {},
		"labels":        func(p *corev1.Pod) { p.Labels["app"] = "other" },
		"another label": func(p *corev1.Pod) { delete(p.Labels, "app"); p.Labels["role"] = "web" },
		"no labels":     func(p *corev1.Pod) { p.Labels = nil },
		"empty labels":  func(p *corev1.Pod) { p.Labels = map[string]string{} },
		"resources":     func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("2") },
		"format": func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests["memory"] = resource.MustParse("1073741824")
		},
		"big quantity": func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("1.0000000000000000001")
		},
		"one more":      func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "more"}) },
		"one less":      func(p *corev1.Pod) { p.Spec.Containers = nil },
		"no volumes":    func(p *corev1.Pod) { p.Spec.Volumes = nil },
		"empty map":     func(p *corev1.Pod) { p.Annotations = map[string]string{} },
		"empty list":    func(p *corev1.Pod) { p.Spec.SecurityContext.SupplementalGroups = []int64{} },
		"empty volumes": func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{} },
		"toleration":    func(p *corev1.Pod) { p.Spec.Tolerations[0].TolerationSeconds = ptr.To[int64](1) },
		"no seconds":    func(p *corev1.Pod) { p.Spec.Tolerations[0].TolerationSeconds = nil },
		"condition": func(p *corev1.Pod) {
			p.Status.Conditions[2].LastTransitionTime = metav1.NewTime(time.Unix(1_700_000_001, 0))
		},
		"start time":     func(p *corev1.Pod) { p.Status.StartTime = nil },
		"time zone":      func(p *corev1.Pod) { p.Status.StartTime = ptr.To(metav1.NewTime(p.Status.StartTime.UTC())) },
		"owner":          func(p *corev1.Pod) { p.OwnerReferences[0].UID = "other" },
		"managed fields": func(p *corev1.Pod) { p.ManagedFields[0].FieldsV1.SetRawString(`{"f:spec":{}}`) },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := running("1"), running("2")
			change(b)
			wantA, wantB := a.DeepCopy(), b.DeepCopy()
			equal := share(reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem())
			if equal {
				t.Error("pods with different names are equal")
			}
			if !reflect.DeepEqual(a, wantA) {
				t.Errorf("the earlier pod has changed to %+v, want %+v", a, wantA)
			}
			if !reflect.DeepEqual(b, wantB) {
				t.Errorf("the pod has changed to %+v, want %+v", b, wantB)
			}
		})
	}
}

// TestEqual: each difference is found, and nothing is changed.
func TestEqual(t *testing.T) {
	for name, change := range map[string]func(p *corev1.Pod){
		"nothing":            func(*corev1.Pod) {},
		"text of a quantity": func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("+1") },
		"text":               func(p *corev1.Pod) { p.Spec.NodeName = "node-2" },
		"list to empty":      func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{} },
		"empty list":         func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{} },
		"longer list":        func(p *corev1.Pod) { p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{}) },
		"element":            func(p *corev1.Pod) { p.Status.Conditions[3].Status = "False" },
		"map":                func(p *corev1.Pod) { p.Labels["app"] = "other" },
		"pointer":            func(p *corev1.Pod) { p.Spec.SecurityContext.FSGroup = ptr.To[int64](2) },
		"no pointer":         func(p *corev1.Pod) { p.Spec.SecurityContext = nil },
		"quantity":           func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("2") },
		"time":               func(p *corev1.Pod) { p.Status.StartTime = &metav1.Time{} },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := running("1"), running("1")
			change(b)
			wantA, wantB := a.DeepCopy(), b.DeepCopy()
			want := name == "nothing"
			if got := Equal(reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()); got != want {
				t.Errorf("equal: %t, want %t", got, want)
			}
			if !reflect.DeepEqual(a, wantA) || !reflect.DeepEqual(b, wantB) || &a.Status.Conditions[0] == &b.Status.Conditions[0] {
				t.Error("the comparison has changed a pod")
			}
		})
	}
}

// TestShare: equal parts share memory, and a list that is appended to does not change those of others.
func TestShare(t *testing.T) {
	var s Samples
	a, b := running("1"), running("2")
	add(&s, "rs", a)
	add(&s, "rs", b)
	for what, same := range map[string]bool{
		"tolerations":   &a.Spec.Tolerations[0] == &b.Spec.Tolerations[0],
		"volume source": a.Spec.Volumes[0].Projected == b.Spec.Volumes[0].Projected,
		"labels":        reflect.ValueOf(a.Labels).Pointer() == reflect.ValueOf(b.Labels).Pointer(),
		"resources":     reflect.ValueOf(a.Spec.Containers[0].Resources.Requests).Pointer() == reflect.ValueOf(b.Spec.Containers[0].Resources.Requests).Pointer(),
		"conditions":    &a.Status.Conditions[0] == &b.Status.Conditions[0],
		"field set":     a.ManagedFields[0].FieldsV1 == b.ManagedFields[0].FieldsV1,
	} {
		if !same {
			t.Errorf("%s: two pods do not share them", what)
		}
	}
	if b.Spec.Volumes[0].Name != "token-2" || b.Spec.Containers[0].VolumeMounts[0].Name != "token-2" || b.UID != "uid-2" {
		t.Errorf("a name was taken from the other pod: %+v", b)
	}
	one, two := append(a.Status.Conditions, corev1.PodCondition{Type: "A"}), append(b.Status.Conditions, corev1.PodCondition{Type: "B"})
	if one[len(one)-1].Type != "A" || two[len(two)-1].Type != "B" {
		t.Error("two lists that were appended to share their last element")
	}
}

// TestShareKeepsTextOfQuantities: a quantity is read as it was written, also if another object has the same one with another text.
func TestShareKeepsTextOfQuantities(t *testing.T) {
	var s Samples
	var pods []*corev1.Pod
	for _, text := range []string{"1.500", "1500m", "1.500"} {
		p := running("1")
		p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse(text)
		p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: ptr.To(resource.MustParse(text))}}}}
		p = decoded(p)
		FillTexts(p)
		add(&s, "rs", p)
		if q := p.Spec.Containers[0].Resources.Requests["cpu"]; q.String() != text {
			t.Errorf("%s is read as %s", text, q.String())
		}
		if q := p.Spec.Volumes[0].EmptyDir.SizeLimit; q.String() != text {
			t.Errorf("with an address, %s is read as %s", text, q)
		}
		pods = append(pods, p)
	}
	if &pods[0].Spec.Tolerations[0] != &pods[2].Spec.Tolerations[0] {
		t.Error("the pods share nothing else")
	}
}

// TestShareGroups: objects of other types and other groups share nothing, and what cannot be shared is left alone.
func TestShareGroups(t *testing.T) {
	var s Samples
	a, b := running("1"), running("2")
	add(&s, "one", a)
	add(&s, "two", b)
	add(&s, "one", &corev1.Node{})
	if &a.Spec.Tolerations[0] == &b.Spec.Tolerations[0] {
		t.Error("pods of two groups share memory")
	}
	add(&s, "one", nil)
	add(&s, "one", (*corev1.Pod)(nil))
	add(&s, "one", 3)
	add(&s, "one", a)
	for n := range 3 * maxSamples {
		add(&s, strconv.Itoa(n), &corev1.Pod{})
	}
	if len(s.known) > maxSamples {
		t.Errorf("%d samples, want at most %d", len(s.known), maxSamples)
	}
}

// TestShareConcurrently is for the race detector: objects that share parts are read and compared at once.
func TestShareConcurrently(t *testing.T) {
	var s Samples
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for i := range 50 {
				p := running(strconv.Itoa(100*n + i))
				add(&s, "rs", p)
				if q := p.Spec.Containers[0].Resources.Requests["cpu"]; q.String() != "1" {
					t.Error(q.String())
				}
			}
		})
	}
	wg.Wait()
}

// FuzzShare: two pods that are read from any bytes are the same afterwards as before.
func FuzzShare(f *testing.F) {
	for _, name := range []string{"1", "2"} {
		data, _ := running(name).Marshal()
		empty, _ := (&corev1.Pod{}).Marshal()
		f.Add(data, empty)
		f.Add(data, data)
	}
	f.Fuzz(func(t *testing.T, one, two []byte) {
		a, b := &corev1.Pod{}, &corev1.Pod{}
		if a.Unmarshal(one) != nil || b.Unmarshal(two) != nil {
			return
		}
		wantA, wantB := a.DeepCopy(), b.DeepCopy()
		var s Samples
		add(&s, "", a)
		add(&s, "", b)
		if !reflect.DeepEqual(a, wantA) || !reflect.DeepEqual(b, wantB) {
			t.Fatalf("sharing changed %+v and %+v", wantA, wantB)
		}
	})
}

// BenchmarkShare measures a pod that shares parts with another one, and the memory that 10,000 of them need.
func BenchmarkShare(b *testing.B) {
	for name, group := range map[string]func(n int) string{"shared": func(int) string { return "" }, "alone": strconv.Itoa} {
		b.Run(name, func(b *testing.B) {
			var s Samples
			pods := make([]*corev1.Pod, 10_000)
			for n := range pods {
				pods[n] = running(strconv.Itoa(n))
			}
			b.ResetTimer()
			for range b.N {
				for n, p := range pods {
					add(&s, group(n), p)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(pods)), "us/pod")
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			kept := len(pods)
			clear(pods)
			s = Samples{}
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(before.HeapAlloc-after.HeapAlloc)/float64(kept), "B/pod")
		})
	}
}
