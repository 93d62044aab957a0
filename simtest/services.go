package simtest

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/rehearse-k8s/rehearse/fault"
)

// The server's allocator of Service addresses starts its search at an address that depends on the
// process's clock. A run therefore sets the address of each new Service itself, as a user may, from
// the run's seed.

func (w *World) isService(p *parked) bool {
	return p.call.Verb == "create" && p.call.Resource == "services" && p.call.Subresource == ""
}

// withClusterIP returns the request's body with an address, if the Service needs one and has none.
// A body that cannot be decoded is returned as it is, so that the API rejects it.
func (w *World) withClusterIP(p *parked) []byte {
	obj, kind, err := scheme.Codecs.UniversalDeserializer().Decode(p.body, nil, nil)
	service, ok := obj.(*corev1.Service)
	if err != nil || !ok || kind.Version != "v1" || service.Spec.ClusterIP != "" || service.Spec.Type == corev1.ServiceTypeExternalName {
		return p.body
	}
	// Upstream allocates first from the upper part of 10.96.0.0/16.
	n := 4096 + fault.Pick(1<<16-4096-2, w.plan.Seed, "service", p.call.Namespace, service.Name)
	service.Spec.ClusterIP = fmt.Sprintf("10.96.%d.%d", n>>8, n&0xff)
	service.SetGroupVersionKind(*kind)
	for _, info := range scheme.Codecs.SupportedMediaTypes() {
		if info.MediaType == p.header.Get("Content-Type") {
			if body, err := runtime.Encode(info.Serializer, service); err == nil {
				return body
			}
		}
	}
	return p.body
}
