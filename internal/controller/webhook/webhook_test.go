package webhook

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	head   = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"1","desiredAPIVersion":"apps.kruise.io/v1alpha1","objects":[`
	object = `{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","metadata":{"name":"web"},"spec":{"replicas":9007199254740993,"updateStrategy":{"type":"OnDelete"}}}`
)

func post(body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/clonesets", strings.NewReader(body)))
	return w
}

func reviewed(t *testing.T, w *httptest.ResponseRecorder) *apiextensionsv1.ConversionReview {
	t.Helper()
	review := &apiextensionsv1.ConversionReview{}
	if err := json.Unmarshal(w.Body.Bytes(), review); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %v\n%s", w.Code, err, w.Body)
	}
	if review.Kind != "ConversionReview" || review.APIVersion != "apiextensions.k8s.io/v1" || review.Response.UID != "1" || review.Request != nil {
		t.Fatalf("%s", w.Body)
	}
	return review
}

func TestConverts(t *testing.T) {
	r := reviewed(t, post(head+object+","+object+"]}}")).Response
	if r.Result.Status != metav1.StatusSuccess || len(r.ConvertedObjects) != 2 {
		t.Fatalf("%+v", r)
	}
	for _, want := range []string{`"apiVersion":"apps.kruise.io/v1alpha1"`, `"type":"OnDelete"`, `"disablePVCReuse":true`, `"replicas":9007199254740993`} {
		if got := string(r.ConvertedObjects[1].Raw); !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
}

// TestOneBadObject checks that the result names the object and the reason, and contains none of the other
// objects.
func TestOneBadObject(t *testing.T) {
	r := reviewed(t, post(head+object+`,{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","spec":7}]}}`)).Response
	if r.Result.Status != metav1.StatusFailure || r.Result.Message != "object 1: spec: want an object, got int64" || len(r.ConvertedObjects) != 0 {
		t.Errorf("%+v", r)
	}
}

func TestNoReview(t *testing.T) {
	for body, want := range map[string]string{
		"":     "not a ConversionReview",
		"[]":   "not a ConversionReview",
		"null": "want ConversionReview of apiextensions.k8s.io/v1",
		`{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"ConversionReview"}`: `got ConversionReview of "apiextensions.k8s.io/v1beta1"`,
		`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview"}`:      "has no request",
	} {
		if w := post(body); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/clonesets", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", w.Code)
	}
}

// FuzzHandler checks that every request is answered, with a review or with an error.
func FuzzHandler(f *testing.F) {
	for _, seed := range []string{"", "null", head + object + "]}}", head + "null,{}]}}", head + `{"kind":"CloneSet","apiVersion":"apps.kruise.io/v1beta1","metadata":null,"spec":{"updateStrategy":[]}}]}}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		w := post(body)
		review := &apiextensionsv1.ConversionReview{}
		switch {
		case w.Code == http.StatusBadRequest && w.Body.Len() > 0:
		case w.Code != http.StatusOK || json.Unmarshal(w.Body.Bytes(), review) != nil || review.Response == nil:
			t.Errorf("%d %s", w.Code, w.Body)
		case (review.Response.Result.Status == metav1.StatusSuccess) == (review.Response.Result.Message != ""):
			t.Errorf("%s", w.Body)
		}
	})
}

func BenchmarkConvert(b *testing.B) {
	body := head + object + "]}}"
	for b.Loop() {
		post(body)
	}
}
