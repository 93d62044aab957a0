package nodepressure

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const mi = 1 << 20

var now = time.Unix(1_000_000_000, 0)

// pod returns a pod with one container that requests and uses so many Mi; used < 0: it does not run.
func pod(name string, requests, used int64, priority int32) Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{}}}
	p.Spec.Priority = &priority
	c := corev1.Container{Name: "main"}
	if requests > 0 {
		c.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(requests*mi, resource.BinarySI)}
	}
	p.Spec.Containers = []corev1.Container{c}
	out := Pod{Pod: p, Measured: used >= 0}
	if out.Measured {
		out.Containers = []Container{{"main", used * mi}}
	}
	return out
}

func with(p Pod, annotation, value string) Pod {
	p.Annotations[annotation] = value
	return p
}

func settings(t *testing.T, hard string) Settings {
	t.Helper()
	s, ok, err := ParseSettings(map[string]string{AnnotationHard: hard})
	if err != nil || !ok {
		t.Fatalf("%s: %t, %v", hard, ok, err)
	}
	return s
}

// TestDecide: which pod is evicted, on a node of 1000Mi.
func TestDecide(t *testing.T) {
	for name, c := range map[string]struct {
		hard     string
		pods     []Pod
		last     time.Duration // since the last pressure; 0: never
		evict    string
		pressure bool
		says     string
	}{
		"enough memory":                {pods: []Pod{pod("a", 0, 900, 0)}},
		"at the threshold is enough":   {hard: "memory.available<100Mi", pods: []Pod{pod("a", 0, 900, 0)}},
		"below it":                     {pods: []Pod{pod("a", 0, 901, 0)}, evict: "a", pressure: true, says: "Threshold quantity: 100Mi, available: 99Mi. Container main was using 901Mi, request is 0, has"},
		"a percentage":                 {hard: "memory.available<20%", pods: []Pod{pod("a", 0, 801, 0)}, evict: "a", pressure: true},
		"usage above the request":      {pods: []Pod{pod("a", 600, 500, 0), pod("b", 300, 401, 0)}, evict: "b", pressure: true},
		"also with a higher priority":  {pods: []Pod{pod("a", 600, 500, 0), pod("b", 300, 401, 1000)}, evict: "b", pressure: true},
		"the lowest priority":          {pods: []Pod{pod("a", 0, 600, 10), pod("b", 0, 301, 9)}, evict: "b", pressure: true},
		"a pod without one has 0":      {pods: []Pod{pod("a", 0, 600, -1), pod("b", 0, 301, 0)}, evict: "a", pressure: true},
		"the most above its request":   {pods: []Pod{pod("a", 500, 600, 0), pod("b", 0, 301, 0)}, evict: "b", pressure: true},
		"no pod above its request":     {pods: []Pod{pod("a", 700, 600, 0), pod("b", 301, 301, 0)}, evict: "b", pressure: true},
		"one without a measurement":    {pods: []Pod{pod("a", 0, 901, -5), pod("b", 0, -1, 100)}, evict: "b", pressure: true},
		"a critical priority":          {pods: []Pod{pod("a", 0, 901, 2_000_000_000), pod("b", 100, 1, 0)}, evict: "b", pressure: true},
		"a mirror pod":                 {pods: []Pod{with(pod("a", 0, 901, 0), corev1.MirrorPodAnnotationKey, "x")}, pressure: true},
		"a static pod":                 {pods: []Pod{with(pod("a", 0, 901, 0), "kubernetes.io/config.source", "file")}, pressure: true},
		"a pod of the API":             {pods: []Pod{with(pod("a", 0, 901, 0), "kubernetes.io/config.source", "api")}, evict: "a", pressure: true},
		"more than there is":           {pods: []Pod{pod("a", 0, 1200, 0)}, evict: "a", pressure: true, says: "available: 0. "},
		"no pods":                      {},
		"the condition stays":          {pods: []Pod{pod("a", 0, 1, 0)}, last: 299 * time.Second, pressure: true},
		"and ends":                     {pods: []Pod{pod("a", 0, 1, 0)}, last: 300 * time.Second},
		"equal pods are taken by name": {pods: []Pod{pod("b", 0, 500, 0), pod("a", 0, 500, 0)}, evict: "a", pressure: true},
	} {
		t.Run(name, func(t *testing.T) {
			hard := c.hard
			if hard == "" {
				hard = "memory.available<100Mi"
			}
			s := State{Settings: settings(t, hard), Now: now, Capacity: 1000 * mi, Pods: c.pods}
			if c.last > 0 {
				s.LastPressure = now.Add(-c.last)
			}
			d := Decide(s)
			evict := ""
			if d.Evict != nil {
				evict = d.Evict.Name
			}
			if evict != c.evict || d.Pressure != c.pressure || !strings.Contains(d.Message, c.says) {
				t.Errorf("evicts %q, pressure %t: %q", evict, d.Pressure, d.Message)
			}
			if want := c.pressure && c.last == 0; want != d.LastPressure.Equal(now) {
				t.Errorf("last pressure %s", d.LastPressure)
			}
		})
	}
	if d := Decide(State{Settings: settings(t, "memory.available<1Mi"), Now: now, Pods: []Pod{pod("a", 0, 5, 0)}}); d.Evict != nil || d.Pressure {
		t.Error("a decision about a node without a capacity")
	}
}

// TestDecideEnds: repeated decisions evict until enough memory is available or only critical pods are left, whatever the
// pods; none evicts when enough is available.
func TestDecideEnds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		s := State{Settings: settings(t, "memory.available<10%"), Now: now, Capacity: 1000 * mi}
		for n := range r.IntN(8) {
			p := pod(string(rune('a'+n)), r.Int64N(300), r.Int64N(400)-20, int32(r.IntN(3)))
			if r.IntN(6) == 0 {
				*p.Spec.Priority = systemCritical
			}
			s.Pods = append(s.Pods, p)
		}
		for {
			d := Decide(s)
			used, critical := int64(0), 0
			for i := range s.Pods {
				used += s.Pods[i].memory()
				if s.Pods[i].isCritical() {
					critical++
				}
			}
			enough := s.Capacity-used >= s.Capacity/10
			if enough == d.Pressure || (d.Evict != nil) != (!enough && critical < len(s.Pods)) {
				t.Fatalf("used %d of %d, %d of %d critical: %+v", used, s.Capacity, critical, len(s.Pods), d)
			}
			if d.Evict == nil {
				break
			}
			for i := range s.Pods {
				if s.Pods[i].Pod == d.Evict {
					s.Pods = append(s.Pods[:i:i], s.Pods[i+1:]...)
					break
				}
			}
		}
	}
}

func TestParseSettings(t *testing.T) {
	for text, want := range map[string]Threshold{
		"memory.available<100Mi": {Bytes: 100 * mi}, " memory.available < 1Gi ": {Bytes: 1 << 30}, "memory.available<5%": {Percent: 5}, "memory.available<0.5%": {Percent: 0.5},
	} {
		if s := settings(t, text); s.Threshold != want || s.Transition != 5*time.Minute {
			t.Errorf("%s: %+v", text, s)
		}
	}
	for _, text := range []string{"", "memory.available", "memory.available>1Gi", "nodefs.available<1Gi", "memory.available<", "memory.available<-1Mi", "memory.available<0",
		"memory.available<0%", "memory.available<100%", "memory.available<NaN%", "memory.available<1Gi,nodefs.available<1Gi", "memory.available<1 Gi"} {
		if _, ok, err := ParseSettings(map[string]string{AnnotationHard: text}); ok || err == nil || !strings.Contains(err.Error(), AnnotationHard) {
			t.Errorf("%q: %t, %v", text, ok, err)
		}
	}
	for text, want := range map[string]time.Duration{"0s": 0, "30s": 30 * time.Second} {
		if s, _, err := ParseSettings(map[string]string{AnnotationHard: "memory.available<1Mi", AnnotationTransition: text}); err != nil || s.Transition != want {
			t.Errorf("%q: %s, %v", text, s.Transition, err)
		}
	}
	if _, _, err := ParseSettings(map[string]string{AnnotationHard: "memory.available<1Mi", AnnotationTransition: "soon"}); err == nil || !strings.Contains(err.Error(), `"soon"`) {
		t.Error(err)
	}
	if _, ok, err := ParseSettings(nil); ok || err != nil {
		t.Error(ok, err)
	}
}

func FuzzParseSettings(f *testing.F) {
	for _, s := range []string{"memory.available<100Mi", "memory.available<5%", "<", "memory.available<1e999"} {
		f.Add(s, int64(1000*mi))
	}
	f.Fuzz(func(t *testing.T, text string, capacity int64) {
		s, ok, err := ParseSettings(map[string]string{AnnotationHard: text})
		if ok == (err != nil) {
			t.Errorf("%t, %v", ok, err)
		}
		if ok && capacity > 0 && s.Of(capacity) < 0 {
			t.Errorf("%q of %d is %d", text, capacity, s.Of(capacity))
		}
	})
}
