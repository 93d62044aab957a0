package conversion

import (
	"regexp"
	"slices"
	"strconv"

	"github.com/rehearse-k8s/rehearse/api/kruise"
)

const inPlacePath = updatePath + ".inPlaceUpdateStrategy"

// notes are annotations of v1alpha1 for which v1beta1 has fields. v1alpha1 has these fields as well, as in
// OpenKruise, and there they take precedence over the annotations.
var notes = []struct {
	annotation, field string
	percent           bool
}{
	{kruise.AnnotationPreDownloadParallelism, "imagePreDownloadParallelism", true},
	{kruise.AnnotationPreDownloadTimeoutSeconds, "imagePreDownloadTimeoutSeconds", false},
	{kruise.AnnotationPreDownloadMinUpdatedReadyPods, "imagePreDownloadMinUpdatedReadyPods", true},
}

var percentage = regexp.MustCompile(`^[0-9]+%$`)

// read returns the field's value for an annotation. A value whose text written would not produce is not read,
// and stays an annotation.
func read(note string, percent bool) (any, bool) {
	if n, err := strconv.ParseInt(note, 10, 32); err == nil && strconv.FormatInt(n, 10) == note {
		return n, true
	}
	return note, percent && percentage.MatchString(note)
}

// written returns the annotation for a field's value.
func written(value any, percent bool) (string, bool) {
	switch v := value.(type) {
	case int64:
		note := strconv.FormatInt(v, 10)
		_, ok := read(note, percent)
		return note, ok
	case string:
		return v, percent && percentage.MatchString(v)
	}
	return "", false
}

// notesToFields moves annotations to v1beta1's fields, while the strategy is flat.
func (c *cloneSet) notesToFields(mine *preserved) error {
	block, there, err := child(c.update, "inPlaceUpdateStrategy", inPlacePath)
	if err != nil {
		return err
	}
	empty := there && len(block) == 0
	moved := false
	for _, n := range notes {
		note, noted, err := text(c.annotations, n.annotation, "metadata.annotations")
		if err != nil {
			return err
		}
		delete(c.annotations, n.annotation)
		value, set := block[n.field]
		if _, ok := written(value, n.percent); ok {
			mine.alpha().Fields = append(mine.alpha().Fields, n.field)
		}
		if !noted {
			continue
		}
		if v, ok := read(note, n.percent); ok && !set {
			block[n.field] = v
			moved = true
			continue
		}
		mine.alpha().note(n.annotation, note)
	}
	if moved {
		c.update["inPlaceUpdateStrategy"] = block
		if empty {
			mine.alpha().EmptyBlock = true
		}
	}
	return nil
}

// fieldsToNotes moves v1beta1's fields to annotations, except those that v1alpha1 had as fields, too. The
// strategy is flat already. v1beta1 never shows the annotations, so an annotation that exists was set in
// v1beta1 and takes effect.
func (c *cloneSet) fieldsToNotes(before *alphaOnly) error {
	block, there, err := child(c.update, "inPlaceUpdateStrategy", inPlacePath)
	if err != nil {
		return err
	}
	moved := false
	for _, n := range notes {
		fresh, noted, err := text(c.annotations, n.annotation, "metadata.annotations")
		if err != nil {
			return err
		}
		if noted {
			if _, ok := read(fresh, n.percent); ok {
				delete(block, n.field)
				moved = true
			}
			continue
		}
		value, set := block[n.field]
		old, remembered := before.Notes[n.annotation]
		_, effective := read(old, n.percent)
		if set && !slices.Contains(before.Fields, n.field) {
			if note, ok := written(value, n.percent); ok {
				c.annotations[n.annotation] = note
				delete(block, n.field)
				moved = true
				continue
			}
		}
		// An annotation that was overridden by the field must not take effect when the field is gone.
		if remembered && (set || !effective) {
			c.annotations[n.annotation] = old
		}
	}
	if there && moved && len(block) == 0 && !before.EmptyBlock {
		delete(c.update, "inPlaceUpdateStrategy")
	}
	return nil
}
