package load

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

const dateLayout = "2006-01-02"

// Var makes one value of a request. Exactly one of the makers is set. A text may use {name} of the vars before it.
type Var struct {
	Name     string      `json:"name"`
	Int      *[2]int     `json:"int"`   // both ends included
	Float    *[2]float64 `json:"float"` // with Decimals digits after the point
	Decimals int         `json:"decimals"`
	Choice   []string    `json:"choice"`
	Weights  []float64   `json:"weights"`
	Date     *DateRange  `json:"date"`
	Text     *string     `json:"text"`
	Repeat   *Repetition `json:"repeat"`
}

// DateRange is a day from From to To, or one that lies MinDays to MaxDays after After and not after NotAfter.
type DateRange struct {
	From     string `json:"from"`
	To       string `json:"to"`
	After    string `json:"after"`
	MinDays  int    `json:"min_days"`
	MaxDays  int    `json:"max_days"`
	NotAfter string `json:"not_after"`
}

// Repetition is a text written several times.
type Repetition struct {
	Text  string `json:"text"`
	Times int    `json:"times"`
}

// newRandom gives the random numbers of one request: they depend on the seed and its number alone, so that neither
// timing nor other requests change what it asks.
func newRandom(seed, number uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, number)) }

// values makes all vars of one request.
func (o *Operation) values(random *rand.Rand) (map[string]string, error) {
	made := make(map[string]string, len(o.Vars))
	for _, v := range o.Vars {
		value, err := v.make(random, made)
		if err != nil {
			return nil, fmt.Errorf("var %s: %w", v.Name, err)
		}
		made[v.Name] = value
	}
	return made, nil
}

func (v Var) make(random *rand.Rand, made map[string]string) (string, error) {
	switch {
	case v.Int != nil:
		if v.Int[1] < v.Int[0] {
			return "", errors.New("empty range")
		}
		return strconv.Itoa(v.Int[0] + random.IntN(v.Int[1]-v.Int[0]+1)), nil
	case v.Float != nil:
		return strconv.FormatFloat(v.Float[0]+random.Float64()*(v.Float[1]-v.Float[0]), 'f', v.Decimals, 64), nil
	case len(v.Choice) > 0:
		return choose(random, v.Choice, v.Weights)
	case v.Date != nil:
		return v.Date.pick(random, made)
	case v.Text != nil:
		return fill(*v.Text, made), nil
	case v.Repeat != nil:
		return strings.Repeat(fill(v.Repeat.Text, made), max(v.Repeat.Times, 0)), nil
	default:
		return "", errors.New("no maker (int, float, choice, date, text or repeat)")
	}
}

func choose(random *rand.Rand, choices []string, weights []float64) (string, error) {
	if len(weights) == 0 {
		return choices[random.IntN(len(choices))], nil
	}
	if len(weights) != len(choices) {
		return "", errors.New("as many weights as choices are needed")
	}
	return choices[pick(random, weights)], nil
}

// pick gives an index with a chance in proportion to its weight.
func pick(random *rand.Rand, weights []float64) int {
	total := 0.0
	for _, weight := range weights {
		total += weight
	}
	at := random.Float64() * total
	for i, weight := range weights {
		if at -= weight; at < 0 {
			return i
		}
	}
	return len(weights) - 1
}

func (d DateRange) pick(random *rand.Rand, made map[string]string) (string, error) {
	first, last, err := d.bounds(made)
	if err != nil {
		return "", err
	}
	days := int(last.Sub(first).Hours() / 24)
	if days < 0 {
		return "", fmt.Errorf("empty range %s..%s", first.Format(dateLayout), last.Format(dateLayout))
	}
	return first.AddDate(0, 0, random.IntN(days+1)).Format(dateLayout), nil
}

func (d DateRange) bounds(made map[string]string) (first, last time.Time, err error) {
	if d.After == "" {
		first, err = time.Parse(dateLayout, fill(d.From, made))
		if err != nil {
			return first, last, err
		}
		last, err = time.Parse(dateLayout, fill(d.To, made))
		return first, last, err
	}
	base, err := time.Parse(dateLayout, fill(d.After, made))
	if err != nil {
		return first, last, err
	}
	first = base.AddDate(0, 0, d.MinDays)
	if d.NotAfter != "" {
		last, err = time.Parse(dateLayout, fill(d.NotAfter, made))
		if err != nil || d.MaxDays == 0 {
			return first, last, err
		}
	}
	if far := base.AddDate(0, 0, d.MaxDays); last.IsZero() || far.Before(last) {
		last = far
	}
	return first, last, nil
}

// fill puts values in the place of {name}.
func fill(text string, made map[string]string) string {
	if !strings.Contains(text, "{") {
		return text
	}
	for name, value := range made {
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	return text
}
