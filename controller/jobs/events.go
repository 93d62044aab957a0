package jobs

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
)

// The budget of Events, a second and at once. What exceeds it waits in the recorder's
// own queue, and is dropped when that is full: it holds up nothing else.
const (
	eventsQPS   = 50
	eventsBurst = 100
)

// record begins to send Events, if any are to be sent. Upstream's component name is
// what people look for in `kubectl describe`.
func (c *instance) record() error {
	if c.options.Events == nil {
		c.events = record.NewBroadcaster()
		return nil
	}
	config := rest.CopyConfig(c.options.Events)
	config.QPS, config.Burst, config.RateLimiter = eventsQPS, eventsBurst, nil
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("job controller: events: %w", err)
	}
	c.events = record.NewBroadcaster()
	c.events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	c.recorder = c.events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "job-controller"})
	return nil
}
