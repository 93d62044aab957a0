package job

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Indexes is a set of completion indexes as a Job's status writes it: sorted spans
// that neither overlap nor touch, in text "1,3-5,7,8".
type Indexes []Span

// Span is the indexes from First to Last, both included.
type Span struct{ First, Last int }

// ParseIndexes parses the text of a status or a success policy. It leaves out indexes from below on, because
// completions may have decreased since. If a part cannot be parsed, the error names it, and the set contains
// all other parts.
func ParseIndexes(text string, below int) (set Indexes, err error) {
	if text == "" {
		return nil, nil
	}
	set = make(Indexes, 0, 1+strings.Count(text, ","))
	for part := range strings.SplitSeq(text, ",") {
		first, last, isSpan := strings.Cut(part, "-")
		if !isSpan {
			last = first
		}
		a, errA := strconv.Atoi(first)
		b, errB := strconv.Atoi(last)
		if errA != nil || errB != nil || a < 0 || b < a {
			err = fmt.Errorf("indexes %q: %q is neither an index nor a span of indexes", text, part)
			continue
		}
		if b = min(b, below-1); a <= b {
			set = set.With(Span{a, b})
		}
	}
	return set, err
}

// String returns the text form. Two consecutive indexes are written separately.
func (x Indexes) String() string {
	b := make([]byte, 0, 12*len(x))
	for i, s := range x {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(s.First), 10)
		switch s.Last - s.First {
		case 0:
			continue
		case 1:
			b = append(b, ',')
		default:
			b = append(b, '-')
		}
		b = strconv.AppendInt(b, int64(s.Last), 10)
	}
	return string(b)
}

// Len returns the number of indexes.
func (x Indexes) Len() (n int) {
	for _, s := range x {
		n += s.Last - s.First + 1
	}
	return n
}

// at returns the position of the first span that does not end before i.
func (x Indexes) at(i int) int {
	low, high := 0, len(x)
	for low < high {
		middle := (low + high) / 2
		if x[middle].Last < i {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// Has reports whether the set contains an index.
func (x Indexes) Has(i int) bool {
	n := x.at(i)
	return n < len(x) && x[n].First <= i
}

// With returns the set with one more span. It may change x.
func (x Indexes) With(s Span) Indexes {
	from := x.at(s.First - 1) // a span that ends right before s is extended
	to := from
	for to < len(x) && x[to].First <= s.Last+1 {
		s.First, s.Last = min(s.First, x[to].First), max(s.Last, x[to].Last)
		to++
	}
	if from == to {
		x = append(x, Span{})
		copy(x[from+1:], x[from:])
		x[from] = s
		return x
	}
	x[from] = s
	return append(x[:from+1], x[to:]...)
}

// Common returns how many indexes both sets contain.
func (x Indexes) Common(y Indexes) (n int) {
	for i, k := 0, 0; i < len(x) && k < len(y); {
		n += max(0, min(x[i].Last, y[k].Last)-max(x[i].First, y[k].First)+1)
		if x[i].Last < y[k].Last {
			i++
		} else {
			k++
		}
	}
	return n
}

// numbers are the completion indexes of pods, sorted; an index may occur several times.
type numbers []int

func (n numbers) has(i int) bool {
	_, ok := slices.BinarySearch(n, i)
	return ok
}
