package podcache

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

const byNode = "spec.nodeName"

// addByNode adds an index by node, as upstream's AddPodNodeNameIndexer does.
func addByNode(i cache.SharedIndexInformer) error {
	return i.AddIndexers(cache.Indexers{byNode: func(o any) ([]string, error) {
		if node := o.(*corev1.Pod).Spec.NodeName; node != "" {
			return []string{node}, nil
		}
		return nil, nil
	}})
}

// informerByNode returns an informer without a source that remembers its index of pods by node, added as upstream's controllers do.
func informerByNode(t testing.TB) cache.SharedIndexInformer {
	i := RememberIndex(cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, cache.Indexers{}), byNode)
	if err := addByNode(i); err != nil {
		t.Fatal(err)
	}
	return i
}

func podOn(name, node string, revision int) *corev1.Pod {
	p := testPod(name, revision, corev1.PodRunning)
	p.Spec.NodeName = node
	return p
}

// onNode returns the pods that the index has for a node.
func onNode(t testing.TB, indexer cache.Indexer, node string) map[any]bool {
	pods, err := indexer.ByIndex(byNode, node)
	if err != nil {
		t.Fatal(err)
	}
	found := map[any]bool{}
	for _, p := range pods {
		found[p] = true
	}
	return found
}

// After each of many random changes, the remembered index has exactly the pods of the store.
func TestRememberIndex(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	indexer := informerByNode(t).GetIndexer()
	nodes := []string{"", "a", "b", "c"}
	for step := range 5000 {
		p := podOn(fmt.Sprint(random.IntN(5)), nodes[random.IntN(len(nodes))], step)
		var err error
		switch random.IntN(12) {
		case 0, 1, 2, 3:
			err = indexer.Update(p)
		case 4, 5:
			err = indexer.Delete(p)
		case 6:
			err = indexer.Replace(nil, fmt.Sprint(step))
		case 7:
			err = indexer.Replace([]any{p}, fmt.Sprint(step))
		}
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]map[any]bool{}
		for _, o := range indexer.List() {
			p := o.(*corev1.Pod)
			if want[p.Spec.NodeName] == nil {
				want[p.Spec.NodeName] = map[any]bool{}
			}
			want[p.Spec.NodeName][o] = true
		}
		for _, node := range nodes[1:] {
			got := onNode(t, indexer, node)
			if len(got) != len(want[node]) {
				t.Fatalf("step %d: %d pods on %s, want %d", step, len(got), node, len(want[node]))
			}
			for o := range got {
				if !want[node][o] {
					t.Fatalf("step %d: pod %s at %s is not on %s", step, o.(*corev1.Pod).Name, o.(*corev1.Pod).ResourceVersion, node)
				}
			}
		}
	}
}

// changedAfterRead is an indexer after whose next read of an index something changes.
type changedAfterRead struct {
	cache.Indexer
	change func()
}

func (c *changedAfterRead) ByIndex(index, value string) ([]any, error) {
	objects, err := c.Indexer.ByIndex(index, value)
	if c.change != nil {
		c.change()
		c.change = nil
	}
	return objects, err
}

// A result is not remembered as current if a pod changes after it was read.
func TestChangeAfterRead(t *testing.T) {
	indexer := informerByNode(t).GetIndexer().(*rememberingIndexer)
	must(t, indexer.Add(podOn("p", "a", 1)))
	indexer.Indexer = &changedAfterRead{Indexer: indexer.Indexer, change: func() { must(t, indexer.Add(podOn("q", "a", 2))) }}
	for _, want := range []int{1, 2, 2} {
		if pods := onNode(t, indexer, "a"); len(pods) != want {
			t.Errorf("%d pods on the node, want %d", len(pods), want)
		}
	}
}

// A writer sees its own write, even if others read at the same time.
func TestRememberIndexConcurrently(t *testing.T) {
	indexer := informerByNode(t).GetIndexer()
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					onNode(t, indexer, "a")
				}
			}
		})
	}
	defer readers.Wait()
	defer close(stop)
	var pods []*corev1.Pod
	for revision := range 20_000 {
		p := podOn(fmt.Sprint(revision), "a", revision)
		must(t, indexer.Add(p))
		pods = append(pods, p)
		if len(pods) > 3 {
			must(t, indexer.Delete(pods[0]))
			pods = pods[1:]
		}
		if found := onNode(t, indexer, "a"); len(found) != len(pods) || !found[p] {
			t.Fatalf("after the write of revision %d: %d pods, want %d", revision, len(found), len(pods))
		}
	}
}

// Results are remembered until a pod changes, and only those of the named index.
func TestRememberedUntilAChange(t *testing.T) {
	informer := informerByNode(t)
	must(t, informer.AddIndexers(cache.Indexers{"phase": func(o any) ([]string, error) { return []string{string(o.(*corev1.Pod).Status.Phase)}, nil }}))
	indexer := informer.GetIndexer()
	must(t, indexer.Add(podOn("p", "a", 1)))
	same := func(index, value string) bool {
		first, _ := indexer.ByIndex(index, value)
		second, _ := indexer.ByIndex(index, value)
		return &first[0] == &second[0]
	}
	if !same(byNode, "a") {
		t.Error("the pods of a node are read again although none has changed")
	}
	if same("phase", string(corev1.PodRunning)) {
		t.Error("the result of another index is remembered")
	}
	must(t, indexer.Add(podOn("q", "b", 2)))
	onNode(t, indexer, "b")
	if kept := len(indexer.(*rememberingIndexer).results); kept != 1 {
		t.Errorf("%d results are kept after a change and one read", kept)
	}
	first, _ := indexer.ByIndex(byNode, "a")
	if grown := append(first, "x"); &grown[0] == &first[0] {
		t.Error("a caller that appends to a result changes the remembered one")
	}
}

// An index that exists before cannot be observed, so nothing is remembered.
func TestIndexAddedBefore(t *testing.T) {
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, cache.Indexers{})
	must(t, addByNode(informer))
	indexer := RememberIndex(informer, byNode).GetIndexer()
	for n := range 3 {
		must(t, indexer.Add(podOn(fmt.Sprint(n), "a", n)))
		if pods := onNode(t, indexer, "a"); len(pods) != n+1 {
			t.Fatalf("%d pods on the node, want %d", len(pods), n+1)
		}
	}
}

// BenchmarkPodsOfNodes reads the pods of 1,000 nodes, as the nodelifecycle controller does every five seconds: with upstream's indexer, and
// with one that remembers.
func BenchmarkPodsOfNodes(b *testing.B) {
	plain := cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, cache.Indexers{})
	if err := addByNode(plain); err != nil {
		b.Fatal(err)
	}
	for name, informer := range map[string]cache.SharedIndexInformer{"upstream": plain, "remembered": informerByNode(b)} {
		indexer := informer.GetIndexer()
		for i := range 100_000 {
			if err := indexer.Add(podOn(fmt.Sprint("pod-", i), fmt.Sprint("node-", i%1000), i)); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				for n := range 1000 {
					if _, err := indexer.ByIndex(byNode, fmt.Sprint("node-", n)); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
