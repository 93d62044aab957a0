//go:build unix

package apiserver_test

import (
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/store"
)

// BenchmarkLeaseRenewal renews the leases of 100 nodes in turn, as the stage engine does ten times per second for 1,000 nodes.
// It is what an idle cluster does most. docs/design/upstream-patches.md has its figures with changes of upstream.
func BenchmarkLeaseRenewal(b *testing.B) {
	s, err := start(b.Context(), b.TempDir(), apiserver.Memory{Worlds: store.New(store.Options{})})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Stop()
	k, err := kubernetes.NewForConfig(s.RESTConfig("bench"))
	if err != nil {
		b.Fatal(err)
	}
	client := k.CoordinationV1().Leases("default")
	leases := make([]*coordinationv1.Lease, 100)
	seconds := int32(40)
	for i := range leases {
		name := fmt.Sprintf("node-%d", i)
		leases[i], err = client.Create(b.Context(), &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: "1"}}},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, RenewTime: &metav1.MicroTime{Time: time.Unix(0, 0)}},
		}, metav1.CreateOptions{})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuTime(b)
	for n := range b.N {
		l := leases[n%len(leases)]
		l.Spec.RenewTime = &metav1.MicroTime{Time: time.Unix(int64(n), 1000)}
		if leases[n%len(leases)], err = client.Update(b.Context(), l, metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/renewal")
}
