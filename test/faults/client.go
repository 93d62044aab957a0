package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Actor is the name of the client in faults.
const Actor = "client"

// ConfigMap returns an object of the test.
func ConfigMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// notOurs excludes the ConfigMap that a cluster creates in each namespace.
const notOurs = "metadata.name!=kube-root-ca.crt"

// Client is a process that lists, watches, creates and updates ConfigMaps of one namespace, and records what
// it observes. It may be started several times.
type Client struct {
	Namespace string

	mu        sync.Mutex
	instances []*instance
	all       []string // the observations of all instances
}

// instance is one start of the client.
type instance struct {
	client *Client
	ctx    context.Context
	// requests are the answers to its requests, and events what its watch delivers.
	requests, events []string
}

// Run starts the client and returns when ctx has ended.
func (c *Client) Run(ctx context.Context, config *rest.Config) error {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	i := &instance{client: c, ctx: ctx}
	c.mu.Lock()
	c.instances = append(c.instances, i)
	c.mu.Unlock()
	text, revision, err := i.list(clients)
	if err != nil {
		return err
	}
	i.note(&i.requests, "list"+text)
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { i.watch(clients, revision) })
	i.write(clients.CoreV1().RESTClient())
	<-ctx.Done()
	return nil
}

// Note records an action of the test.
func (c *Client) Note(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, text)
}

// note records an observation, unless the instance has been terminated.
func (i *instance) note(log *[]string, text string) {
	i.client.mu.Lock()
	defer i.client.mu.Unlock()
	if i.ctx.Err() == nil {
		*log = append(*log, text)
		i.client.all = append(i.client.all, text)
	}
}

// write creates an object and updates it. client-go must not repeat the requests by itself.
func (i *instance) write(client rest.Interface) {
	mark := &corev1.ConfigMap{}
	err := client.Post().MaxRetries(0).Namespace(i.client.Namespace).Resource("configmaps").Body(ConfigMap("mark")).Do(i.ctx).Into(mark)
	i.note(&i.requests, "create: "+reason(err))
	if err != nil {
		return
	}
	mark.Data = map[string]string{"n": "1"}
	err = client.Put().MaxRetries(0).Namespace(i.client.Namespace).Resource("configmaps").Name("mark").Body(mark).Do(i.ctx).Error()
	i.note(&i.requests, "update: "+reason(err))
}

// reason returns how a client classifies an error.
func reason(err error) string {
	switch {
	case err == nil:
		return "ok"
	case apierrors.ReasonForError(err) != metav1.StatusReasonUnknown:
		return string(apierrors.ReasonForError(err))
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return fmt.Sprint(status.Status().Code)
	}
	return "no answer"
}

func (i *instance) list(client kubernetes.Interface) (text, revision string, err error) {
	list, err := client.CoreV1().ConfigMaps(i.client.Namespace).List(i.ctx, metav1.ListOptions{FieldSelector: notOurs})
	if err != nil {
		return "", "", err
	}
	for _, m := range list.Items {
		text += " " + m.Name + m.Data["n"]
	}
	return text, list.ResourceVersion, nil
}

// watch watches as informers do: from the last revision, and from a new list after that has expired.
func (i *instance) watch(client kubernetes.Interface, revision string) {
	for i.ctx.Err() == nil {
		options := metav1.ListOptions{FieldSelector: notOurs, ResourceVersion: revision}
		events, err := client.CoreV1().ConfigMaps(i.client.Namespace).Watch(i.ctx, options)
		if err != nil {
			return
		}
		expired := false
		for e := range events.ResultChan() {
			if m, ok := e.Object.(*corev1.ConfigMap); ok {
				i.note(&i.events, fmt.Sprintf("%s %s%s", e.Type, m.Name, m.Data["n"]))
				revision = m.ResourceVersion
			}
			expired = expired || apierrors.IsResourceExpired(apierrors.FromObject(e.Object))
		}
		if !expired {
			i.note(&i.events, "end")
			continue
		}
		var text string
		if text, revision, err = i.list(client); err != nil {
			return
		}
		i.note(&i.events, "expired, list"+text)
	}
}

// observed returns what the instances have observed: first their requests, then their events. Events of
// instances that have been terminated depend on timing, and are left out.
func (c *Client) observed() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var lines []string
	for n, i := range c.instances {
		line := strings.Join(i.requests, ", ")
		if i.ctx.Err() == nil || n == len(c.instances)-1 {
			line += " | " + strings.Join(i.events, ", ")
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// Written reports whether n instances have started, and all that were not terminated have received the answers to
// their writes.
func (c *Client) Written(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.instances) >= n && !slices.ContainsFunc(c.instances, func(i *instance) bool {
		return i.ctx.Err() == nil && !slices.ContainsFunc(i.requests, func(text string) bool {
			return strings.HasPrefix(text, "update: ") || strings.HasPrefix(text, "create: ") && text != "create: ok"
		})
	})
}

// before reports whether the client has observed one thing before another.
func (c *Client) before(first, second string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, text := range c.all {
		switch text {
		case first:
			return true
		case second:
			return false
		}
	}
	return false
}
