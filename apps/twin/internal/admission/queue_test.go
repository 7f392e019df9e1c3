package admission

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestRateIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := New(20, 100)
		begin := time.Now()
		done := make(chan error)
		for range 41 {
			go func() { done <- queue.Acquire(t.Context()) }()
		}
		for range 41 {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("41 requests at 20/s took %v, not 2 s", took)
		}
		stop(queue)
	})
}

func TestTokensDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := New(10, 10)
		time.Sleep(time.Minute)
		begin := time.Now()
		for range 3 {
			if err := queue.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begin); took != 200*time.Millisecond {
			t.Errorf("3 requests at 10/s after a quiet minute took %v", took)
		}
		stop(queue)
	})
}

func TestFullQueueRefusesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := New(1, 2)
		ctx, cancel := context.WithCancel(t.Context())
		for range 4 { // the first passes, the second waits for its token, two fill the queue
			go queue.Acquire(ctx) //nolint:errcheck // cancelled
			synctest.Wait()
		}
		if err := queue.Acquire(ctx); !errors.Is(err, ErrFull) {
			t.Errorf("got %v", err)
		}
		if queue.Rejected() != 1 || queue.Received() != 5 || queue.Depth() != 2 {
			t.Errorf("rejected %d, received %d, depth %d", queue.Rejected(), queue.Received(), queue.Depth())
		}
		cancel()
		time.Sleep(10 * time.Second)
		stop(queue)
	})
}

func TestCallersThatGaveUpStillUseTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := New(1, 10)
		if err := queue.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			if err := queue.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("got %v", err)
			}
			cancel()
		}
		begin := time.Now()
		if err := queue.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(begin); waited < 5*time.Second {
			t.Errorf("waited %v: the five before it did not use their tokens", waited)
		}
		if queue.Expired() != 5 {
			t.Errorf("expired %d", queue.Expired())
		}
		stop(queue)
	})
}

func TestWithoutLimitsEverythingPasses(t *testing.T) {
	for _, queue := range []*Queue{New(0, 256), New(20, 0), New(-1, -1)} {
		for range 1000 {
			if err := queue.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// stop ends the goroutine that serves the queue, as a bubble must not leave any behind.
func stop(queue *Queue) { close(queue.waiting) }
