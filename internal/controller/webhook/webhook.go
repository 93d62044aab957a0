package webhook

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/rehearse-k8s/rehearse/api/kruise/conversion"
)

// maxReview is the largest request that is read. A list is converted in one review, so this is much more than
// the size limit of one object.
const maxReview = 1 << 30

// Handler answers conversion reviews.
func Handler() http.Handler { return http.HandlerFunc(serve) }

func serve(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "want POST with a ConversionReview", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReview))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	review, err := answer(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	// An error means that the client has disconnected.
	_ = json.NewEncoder(w).Encode(review)
}

// answer returns the review with the result. An object that cannot be converted is a result too; answer returns
// an error only if the body is not a ConversionReview.
func answer(body []byte) (*apiextensionsv1.ConversionReview, error) {
	review := &apiextensionsv1.ConversionReview{}
	if err := json.Unmarshal(body, review); err != nil {
		return nil, fmt.Errorf("not a ConversionReview: %w", err)
	}
	if want := apiextensionsv1.SchemeGroupVersion.WithKind("ConversionReview"); review.GroupVersionKind() != want {
		return nil, fmt.Errorf("want %s of %s, got %s of %q", want.Kind, want.GroupVersion(), review.Kind, review.APIVersion)
	}
	request := review.Request
	if request == nil {
		return nil, fmt.Errorf("the ConversionReview has no request")
	}
	response := &apiextensionsv1.ConversionResponse{UID: request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	response.ConvertedObjects = make([]runtime.RawExtension, len(request.Objects))
	for i, o := range request.Objects {
		converted, err := convert(o.Raw, request.DesiredAPIVersion)
		if err != nil {
			response.ConvertedObjects = nil
			response.Result = metav1.Status{Status: metav1.StatusFailure, Message: fmt.Sprintf("object %d: %v", i, err)}
			break
		}
		response.ConvertedObjects[i].Raw = converted
	}
	review.Request, review.Response = nil, response
	return review, nil
}

func convert(raw []byte, version string) ([]byte, error) {
	var o map[string]any
	// This encoder keeps integers as integers.
	if err := utiljson.Unmarshal(raw, &o); err != nil {
		return nil, err
	}
	if err := conversion.JSON(o, version); err != nil {
		return nil, err
	}
	return json.Marshal(o)
}
