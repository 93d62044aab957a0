package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/internal/snapshot"
)

// PageSize is the default number of objects per list request.
const PageSize = 500

// SaveOptions select what Save writes.
type SaveOptions struct {
	// Header describes the file; Save adds the version of the API server and the selection.
	Header snapshot.Header
	Selection
	PageSize       int64 // 0: PageSize
	OmitSecretData bool
	// Progress, if set, is called after each page with the resource and the numbers of its objects: those written and those
	// that exist, as far as the API server reports them.
	Progress func(resource string, done, total int)
	// Warn is called for each part of the cluster that cannot be saved. Required.
	Warn func(format string, args ...any)
}

// SaveResult counts the objects that Save wrote.
type SaveResult struct {
	Objects, Kinds int
	LeftOut        int // objects that no restore can use
}

// saver is one call of Save.
type saver struct {
	clients
	SaveOptions
	out    *snapshot.Writer
	result SaveResult
	// listed, if set, is called after a list with the revision of its first page and the options that select the same objects.
	listed func(r resource, client dynamic.ResourceInterface, selection metav1.ListOptions, revision string)
	saved  func(obj *unstructured.Unstructured, managed []metav1.ManagedFieldsEntry) // if set, called for each object
}

var namespaceKind = schema.GroupKind{Kind: "Namespace"}

// Save writes the selected objects of a cluster. The objects of one kind are those of one moment, those of different kinds are not.
// If the error is not nil, the output is incomplete.
func Save(ctx context.Context, config *rest.Config, w io.Writer, format snapshot.Format, compressed bool, o SaveOptions) (SaveResult, error) {
	s := &saver{SaveOptions: o}
	if err := s.save(ctx, config, w, format, compressed); err != nil {
		return s.result, err
	}
	return s.result, s.out.Close()
}

// save writes the header and the objects.
func (s *saver) save(ctx context.Context, config *rest.Config, w io.Writer, format snapshot.Format, compressed bool) (err error) {
	if s.PageSize == 0 {
		s.PageSize = PageSize
	}
	if s.clients, err = connect(ctx, config); err != nil {
		return err
	}
	version, err := s.discovery.ServerVersion()
	if err != nil {
		return err
	}
	all, err := s.preferred(s.Warn)
	if err != nil {
		return err
	}
	resources, err := choose(all, s.Only)
	if err != nil {
		return err
	}
	h := s.Header
	h.KubernetesVersion, h.Only, h.Namespaces, h.Selector = version.GitVersion, s.Only, s.Namespaces, s.Selector
	if s.OmitSecretData {
		h.SecretData = snapshot.DataOmitted
	}
	if s.out, err = snapshot.NewWriter(w, format, compressed, h); err != nil {
		return err
	}
	for _, r := range resources {
		before := s.out.Objects()
		if err := s.resource(ctx, r); err != nil {
			return fmt.Errorf("list %s: %w", r.GroupResource(), err)
		}
		if s.out.Objects() > before {
			s.result.Kinds++
		}
	}
	s.result.Objects = s.out.Objects()
	return nil
}

// resource writes the selected objects of one kind.
func (s *saver) resource(ctx context.Context, r resource) error {
	client := s.dynamic.Resource(r.GroupVersionResource)
	switch {
	case len(s.Namespaces) == 0:
		return s.optional(r, s.list(ctx, client, r, ""))
	case r.namespaced:
		for _, n := range s.Namespaces {
			if err := s.optional(r, s.list(ctx, client.Namespace(n), r, "")); err != nil {
				return err
			}
		}
	case r.groupKind() == namespaceKind:
		for _, n := range s.Namespaces {
			if err := s.optional(r, s.list(ctx, client, r, "metadata.name="+n)); err != nil {
				return err
			}
		}
	case len(s.Only) > 0: // the user named it
		return s.list(ctx, client, r, "")
	}
	return nil
}

// optional turns the error of a kind that the user may not list, or that its server does not list, into a warning, unless the
// user named the kind.
func (s *saver) optional(r resource, err error) error {
	if err == nil || len(s.Only) > 0 || !apierrors.IsForbidden(err) && !apierrors.IsMethodNotSupported(err) && !apierrors.IsNotFound(err) {
		return err
	}
	s.Warn("%s is left out: %v", r.GroupResource(), err)
	return nil
}

// list writes the objects of one kind. While it writes a page, the server prepares the next one.
func (s *saver) list(ctx context.Context, client dynamic.ResourceInterface, r resource, fields string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	opts := metav1.ListOptions{Limit: s.PageSize, FieldSelector: fields}
	if k := r.groupKind(); k != namespaceKind && k != snapshot.CRD {
		opts.LabelSelector = s.Selector
	}
	selection, revision, warned := opts, "", false
	next := request(ctx, client, opts)
	for done := 0; ; {
		answer := <-next
		page, err := answer.page, answer.err
		if token := expired(err); token != "" && token != opts.Continue {
			if !warned {
				s.Warn("listing %s took so long that its first objects are older than its last ones", r.GroupResource())
			}
			warned = true
			opts.Continue = token
			next = request(ctx, client, opts)
			continue
		}
		if err != nil {
			return err
		}
		if opts.Continue = page.GetContinue(); opts.Continue != "" {
			next = request(ctx, client, opts)
		}
		for i := range page.Items {
			if err := s.write(r, &page.Items[i]); err != nil {
				return err
			}
		}
		done += len(page.Items)
		if s.Progress != nil && len(page.Items) > 0 {
			total := done
			if n := page.GetRemainingItemCount(); n != nil {
				total += int(*n)
			}
			s.Progress(r.Resource, done, total)
		}
		if revision == "" {
			revision = page.GetResourceVersion()
		}
		if opts.Continue == "" {
			if s.listed != nil {
				s.listed(r, client, selection, revision)
			}
			return nil
		}
	}
}

// listAnswer is one page of a list.
type listAnswer struct {
	page *unstructured.UnstructuredList
	err  error
}

// request requests one page of a list, and does not wait for it.
func request(ctx context.Context, client dynamic.ResourceInterface, opts metav1.ListOptions) <-chan listAnswer {
	answer := make(chan listAnswer, 1)
	go func() {
		page, err := client.List(ctx, opts)
		answer <- listAnswer{page, err}
	}()
	return answer
}

// expired returns the token with which a list continues after its revision was compacted, at the newest revision.
func expired(err error) string {
	var status apierrors.APIStatus
	if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) {
		return ""
	}
	return status.Status().Continue
}

func (s *saver) write(r resource, obj *unstructured.Unstructured) error {
	obj.SetGroupVersionKind(r.gvk())
	if snapshot.LeaveOut(obj) != "" {
		s.result.LeftOut++
		return nil
	}
	var managed []metav1.ManagedFieldsEntry
	if s.saved != nil {
		managed = obj.GetManagedFields()
	}
	snapshot.Trim(obj)
	if s.OmitSecretData {
		snapshot.OmitSecretData(obj)
	}
	if s.saved != nil {
		s.saved(obj, managed)
	}
	return s.out.Write(obj)
}
