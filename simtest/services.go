package simtest

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/rehearse-k8s/rehearse/fault"
)

// The server's allocator of Service addresses begins its search at a place that it
// draws from the process's clock. A run gives each new Service an address of its
// own choice, as a user may, from the run's seed.

func (w *World) isService(p *parked) bool {
	return p.call.Verb == "create" && p.call.Resource == "services" && p.call.Subresource == ""
}

// withClusterIP is the request's body with an address, if the Service wants one and
// has none. What cannot be read is left to the API to refuse.
func (w *World) withClusterIP(p *parked) []byte {
	obj, kind, err := scheme.Codecs.UniversalDeserializer().Decode(p.body, nil, nil)
	service, ok := obj.(*corev1.Service)
	if err != nil || !ok || kind.Version != "v1" || service.Spec.ClusterIP != "" || service.Spec.Type == corev1.ServiceTypeExternalName {
		return p.body
	}
	// The upper part of 10.96.0.0/16, where upstream allocates first.
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
