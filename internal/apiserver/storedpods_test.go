package apiserver_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/controller/podcache"
	"github.com/rehearse-k8s/rehearse/internal/store"
)

// storedPodSpecs have the fields that differ between the versions of the store and of clients, and quantities with and without an address. Parsing "64Mi" keeps no text,
// so the first reader of its text would keep it.
var storedPodSpecs = map[string]corev1.PodSpec{
	"plain": {},
	"host": {
		HostNetwork: true, HostPID: true, ShareProcessNamespace: nil, SecurityContext: &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](7)},
	},
	"volumes": {
		Volumes: []corev1.Volume{
			{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: ptr.To(resource.MustParse("64Mi"))}}},
			{Name: "config", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}},
				{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "cpu", ResourceFieldRef: &corev1.ResourceFieldSelector{
					ContainerName: "a", Resource: "limits.cpu", Divisor: resource.MustParse("1m")}}}}},
			}}}},
		},
	},
	"files": {
		Volumes: []corev1.Volume{{Name: "info", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "memory", ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: "a", Resource: "limits.memory", Divisor: resource.MustParse("1Mi")}}}}}}},
	},
	"environment": {
		InitContainers: []corev1.Container{{Name: "init", Image: "i", Env: []corev1.EnvVar{{Name: "CPU", ValueFrom: &corev1.EnvVarSource{
			ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "requests.cpu", Divisor: resource.MustParse("1m")}}}}}},
	},
	"probes": {
		TerminationGracePeriodSeconds: ptr.To[int64](3),
		Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Affinity:                      &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}},
		Containers: []corev1.Container{{
			Name: "a", Image: "a", ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString("http")}}},
			Ports:     []corev1.ContainerPort{{Name: "http", ContainerPort: 80}},
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1500m"), "memory": resource.MustParse("1Gi")}},
		}},
	},
}

// TestStoredPods: the shared pod cache that reads from the store has what the API returns, for pods that were there before it, that were created,
// changed and deleted since, and its readers modify nothing of the store.
func TestStoredPods(t *testing.T) {
	if _, err := (apiserver.Memory{Worlds: store.New(store.Options{})}).Pods(); err == nil {
		t.Error("a backend without a server has pods")
	}
	backend, c := startSharing(t)
	createStoredPods(t, c, "before")
	source, err := backend.Pods()
	if err != nil {
		t.Fatal(err)
	}
	pods := podcache.Unconnected()
	if err := pods.ConnectTo(source); err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { pods.Run(running) })
	defer work.Wait()
	defer stop()

	reader := pods.Client(c, "", nil).CoreV1().Pods("")
	first, err := reader.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := reader.Watch(t.Context(), metav1.ListOptions{ResourceVersion: first.ResourceVersion, AllowWatchBookmarks: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	createStoredPods(t, c, "after")
	changeStoredPods(t, c)
	// Clients read while the cache's readers do: the race detector finds a reader that modifies what it shares.
	work.Go(func() {
		for range 20 {
			if _, err := c.CoreV1().Pods("default").List(running, metav1.ListOptions{}); err != nil {
				return
			}
		}
	})
	last, err := c.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "last"}, Spec: complete(corev1.PodSpec{})}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for seen := false; !seen; {
		e, ok := <-w.ResultChan()
		p, isPod := e.Object.(*corev1.Pod)
		if !ok || !isPod {
			t.Fatalf("event %s: %v", e.Type, e.Object)
		}
		work.Go(func() { _ = p.Size() }) // formats all quantities
		work.Go(func() { _ = p.Size() })
		seen = p.UID == last.UID
	}
	comparePods(t, pods, c)
	if compared, modified := backend.Worlds.Modified(); compared == 0 || len(modified) > 0 {
		t.Errorf("of %d objects of the store, readers have modified %v", compared, modified)
	}
	before := cachedPod(t, pods, "last")
	pods.Relist()
	for cachedPod(t, pods, "last") == before {
		if e, ok := <-w.ResultChan(); !ok || e.Type != watch.Bookmark { // the cache sends one after it has listed
			t.Fatalf("event %s: %v", e.Type, e.Object)
		}
	}
	comparePods(t, pods, c)
}

// cachedPod returns a pod that the cache has.
func cachedPod(t *testing.T, pods *podcache.Cache, name string) *corev1.Pod {
	t.Helper()
	p, err := pods.Pod(t.Context(), "default", name)
	if err != nil || p == nil {
		t.Fatalf("pod %s: %v, %v", name, p, err)
	}
	return p
}

// startSharing starts a server whose objects share equal parts, as in a cluster.
func startSharing(t *testing.T) (apiserver.Memory, kubernetes.Interface) {
	t.Helper()
	return startInMemory(t, store.Options{ShareParts: true})
}

func startInMemory(t *testing.T, o store.Options) (apiserver.Memory, kubernetes.Interface) {
	t.Helper()
	backend := apiserver.Memory{Worlds: store.New(o)}
	s, err := apiserver.Start(t.Context(), apiserver.Options{
		Dir: t.TempDir(), Backend: backend, WatchCache: true, Settings: apiserver.Settings{AdmissionPlugins: []string{"-ServiceAccount"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return backend, client(t, s)
}

func complete(s corev1.PodSpec) corev1.PodSpec {
	s = *s.DeepCopy()
	s.NodeName = "node-0"
	if len(s.Containers) == 0 {
		s.Containers = []corev1.Container{{Name: "a", Image: "a"}}
	}
	return s
}

func createStoredPods(t *testing.T, c kubernetes.Interface, prefix string) {
	t.Helper()
	for name, spec := range storedPodSpecs {
		for n := range 2 { // the second one shares parts with the first
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%s-%d", prefix, name, n), Labels: map[string]string{"app": name}}, Spec: complete(spec)}
			if _, err := c.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// changeStoredPods writes a status of every pod, marks some as deleted and deletes others.
func changeStoredPods(t *testing.T, c kubernetes.Interface) {
	t.Helper()
	list, err := c.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		p := &list.Items[i]
		p.Status.Phase, p.Status.PodIPs, p.Status.PodIP = corev1.PodRunning, []corev1.PodIP{{IP: "10.0.0.1"}}, "10.0.0.1"
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now().Rfc3339Copy()}}
		if _, err := c.CoreV1().Pods("default").UpdateStatus(t.Context(), p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		options := metav1.DeleteOptions{}
		switch i % 4 {
		case 0:
			options.GracePeriodSeconds = ptr.To[int64](0)
			fallthrough
		case 1:
			if err := c.CoreV1().Pods("default").Delete(t.Context(), p.Name, options); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// comparePods compares the pods of the cache with those of the API.
func comparePods(t *testing.T, pods *podcache.Cache, c kubernetes.Interface) {
	t.Helper()
	list, err := c.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]*corev1.Pod{}
	for i := range list.Items {
		p := &list.Items[i]
		p.ManagedFields = nil
		want[p.Name] = p
	}
	cached, err := pods.Pods(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]*corev1.Pod{}
	for _, p := range cached {
		got[p.Name] = p
	}
	if d := cmp.Diff(want, got); d != "" || len(want) < 10 {
		t.Errorf("pods of the API (-) and of the cache (+), %d and %d:\n%s", len(want), len(got), d)
	}
}

// TestStoredPodsAreShared: the pods of a list and of a watch have the containers of the store, and so has each later one.
func TestStoredPodsAreShared(t *testing.T) {
	backend, c := startSharing(t)
	createStoredPods(t, c, "a")
	stored, err := backend.Pods()
	if err != nil {
		t.Fatal(err)
	}
	source := cache.ToListerWatcherWithContext(stored)
	list, err := source.ListWithContext(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]*corev1.Container{}
	for _, p := range list.(*corev1.PodList).Items {
		listed[p.Name] = unsafe.SliceData(p.Spec.Containers)
	}
	for range 2 {
		w, err := source.WatchWithContext(t.Context(), metav1.ListOptions{}) // without a revision it begins with the existing pods
		if err != nil {
			t.Fatal(err)
		}
		for range listed {
			p := (<-w.ResultChan()).Object.(*corev1.Pod)
			if unsafe.SliceData(p.Spec.Containers) != listed[p.Name] {
				t.Errorf("pod %s has containers of its own", p.Name)
			}
		}
		w.Stop()
	}
	if want := 2 * len(storedPodSpecs); len(listed) != want {
		t.Errorf("%d pods, want %d", len(listed), want)
	}
}

// TestUpdatedPodsShareParts: a pod of a server shares its spec with the version before until the spec changes. TestPartsOfPods has all cases, with an encoding of its own.
func TestUpdatedPodsShareParts(t *testing.T) {
	backend, c := startInMemory(t, store.Options{}) // without ShareParts, which would also give two versions the same spec
	pods := c.CoreV1().Pods("default")
	if _, err := pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: complete(corev1.PodSpec{})}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	stored, err := backend.Pods()
	if err != nil {
		t.Fatal(err)
	}
	containers := func() *corev1.Container {
		t.Helper()
		list, err := cache.ToListerWatcherWithContext(stored).ListWithContext(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return unsafe.SliceData(list.(*corev1.PodList).Items[0].Spec.Containers)
	}
	before := containers()
	for _, change := range []struct {
		patch  string
		shares bool
	}{
		{`{"metadata":{"labels":{"a":"b"}}}`, true},
		{`{"spec":{"activeDeadlineSeconds":7}}`, false},
	} {
		if _, err := pods.Patch(t.Context(), "a", types.MergePatchType, []byte(change.patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		if shares := containers() == before; shares != change.shares {
			t.Errorf("%s: the spec is shared: %t, want %t", change.patch, shares, change.shares)
		}
	}
}
