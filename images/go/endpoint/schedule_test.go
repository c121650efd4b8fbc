package endpoint

import (
	"net/url"
	"testing"
	"time"
)

func urls(count int) []*url.URL {
	made := make([]*url.URL, count)
	for number := range made {
		made[number] = &url.URL{Scheme: "https", Host: "server4", Path: "/f"}
	}
	return made
}

func TestRequestsAreDueAfterThoseBeforeThem(t *testing.T) {
	requests, err := parseSchedule("0,0,,u=0;0,0.05,0,u=5,i;2,0,0-1,", urls(3))
	if err != nil {
		t.Fatal(err)
	}
	if requests[1].Priority != "u=5,i" || requests[2].Priority != "" || len(requests[2].after) != 2 {
		t.Fatal(*requests[1], *requests[2])
	}
	zero := time.Unix(100, 0)
	if due, ready := requests[0].due(zero, requests); !ready || due != zero {
		t.Fatal(due, ready)
	}
	if _, ready := requests[1].due(zero, requests); ready {
		t.Fatal("a request was due before the one before it was answered")
	}
	requests[0].complete = zero.Add(time.Second)
	if due, ready := requests[1].due(zero, requests); !ready || due != zero.Add(1050*time.Millisecond) {
		t.Fatal(due, ready)
	}
	requests[1].complete = zero.Add(1500 * time.Millisecond)
	if due, ready := requests[2].due(zero, requests); !ready || due != zero.Add(2*time.Second) {
		t.Fatal(due, ready)
	}
}

func TestWhatIsNoScheduleIsRefused(t *testing.T) {
	for _, text := range []string{"", "0,0,", "a,0,,", "0,0,1,", "0,0,0-1,", "0,0,x,", "0,0,,;0,0,,"} {
		if _, err := parseSchedule(text, urls(1)); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
