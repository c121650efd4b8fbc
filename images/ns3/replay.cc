/*
 * Queues and a serial link as ns-3 has them, for arrivals that are known: who was dropped, who left when.
 *
 * Standard input, times in ns and in order of time. First, once, one of:
 *   queue BYTES               a drop-tail queue and what it holds
 *   red BYTES MIN MAX PROBABILITY WEIGHT MEAN RUNS
 *                             RED: its limit and its thresholds in bytes, the probability at MAX, the average's weight,
 *                             the mean packet in bytes; RUNS times over, each with random numbers of its own
 * Then, as often as need be:
 *   rate TIME BIT/S           the link's rate from then on
 *   packet TIME BYTES         an arrival; at layer 2, as the link carries it
 * Standard output: for 'queue' one line for each packet in order, when it had left the link, or -1; for 'red' one line
 * for each run: how many were dropped by the average, how many for want of room, and the sum of all others' waits, ns.
 *
 * ns-3's point-to-point device takes the packet in service out of its queue, as a real one does. A change of its rate
 * is for the packets that begin from then on. With RED the server is our own, since the device has a queue of its own
 * below: it is the same but for that, and asks no empty queue, so that an average does not fall while a link is idle.
 */
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <unordered_map>
#include <vector>
#include "ns3/boolean.h"
#include "ns3/data-rate.h"
#include "ns3/double.h"
#include "ns3/drop-tail-queue.h"
#include "ns3/mac48-address.h"
#include "ns3/node.h"
#include "ns3/nstime.h"
#include "ns3/packet.h"
#include "ns3/queue-item.h"
#include "ns3/queue-size.h"
#include "ns3/red-queue-disc.h"
#include "ns3/rng-seed-manager.h"
#include "ns3/point-to-point-channel.h"
#include "ns3/point-to-point-net-device.h"
#include "ns3/simulator.h"
#include "ns3/uinteger.h"

using namespace ns3;

/* What a point-to-point device puts ahead of a packet (RFC 1661 §2): a part of the layer-2 length here. */
static const uint32_t PPP = 2;

/* An arrival, or a change of the rate. */
struct Event {
	bool is_packet;
	int64_t time_ns;
	uint64_t value; /* bytes; bit/s */
};

static std::vector<Event> read_events()
{
	std::vector<Event> events;
	char word[16];
	long long time, value;

	while (std::scanf("%15s %lld %lld", word, &time, &value) == 3)
		events.push_back({!std::strcmp(word, "packet"), time, static_cast<uint64_t>(value)});
	return events;
}

/* --- a drop-tail queue before a point-to-point device */

static std::vector<int64_t> departures;
static std::unordered_map<uint64_t, size_t> numbers;
static Ptr<PointToPointNetDevice> device;

static void arrive(size_t number, uint32_t bytes)
{
	Ptr<Packet> packet = Create<Packet>(bytes - PPP);

	numbers[packet->GetUid()] = number;
	device->Send(packet, device->GetBroadcast(), 0x0800);
}

static bool receive(Ptr<NetDevice>, Ptr<const Packet> packet, uint16_t, const Address &)
{
	departures[numbers.at(packet->GetUid())] = Simulator::Now().GetNanoSeconds();
	return true;
}

static void set_rate(uint64_t rate)
{
	device->SetDataRate(DataRate(rate));
}

static void drop_tail(uint32_t limit, const std::vector<Event> &events)
{
	Ptr<Node> nodes[2] = {CreateObject<Node>(), CreateObject<Node>()};
	Ptr<PointToPointNetDevice> ends[2];
	Ptr<PointToPointChannel> channel = CreateObject<PointToPointChannel>();
	Ptr<DropTailQueue<Packet>> queue = CreateObject<DropTailQueue<Packet>>();

	queue->SetMaxSize(QueueSize(QueueSizeUnit::BYTES, limit));
	channel->SetAttribute("Delay", TimeValue(Time(0)));
	for (int end = 0; end < 2; end++) {
		ends[end] = CreateObject<PointToPointNetDevice>();
		ends[end]->SetAddress(Mac48Address::Allocate());
		ends[end]->SetQueue(end ? CreateObject<DropTailQueue<Packet>>() : queue);
		nodes[end]->AddDevice(ends[end]);
		ends[end]->Attach(channel);
	}
	ends[1]->SetReceiveCallback(MakeCallback(&receive));
	device = ends[0];
	for (const Event &event : events) {
		if (event.is_packet) {
			Simulator::Schedule(NanoSeconds(event.time_ns), &arrive, departures.size(),
					    static_cast<uint32_t>(event.value));
			departures.push_back(-1);
		} else {
			Simulator::Schedule(NanoSeconds(event.time_ns), &set_rate, event.value);
		}
	}
	Simulator::Run();
	for (int64_t departure : departures)
		std::printf("%lld\n", static_cast<long long>(departure));
	Simulator::Destroy();
}

/* --- RED before a serial server */

/* Nothing of a packet counts but its length. */
class Item : public QueueDiscItem
{
public:
	explicit Item(uint32_t bytes) : QueueDiscItem(Create<Packet>(bytes), Mac48Address(), 0x0800)
	{
	}

	void AddHeader() override
	{
	}

	bool Mark() override
	{
		return false;
	}
};

class Server
{
public:
	explicit Server(Ptr<QueueDisc> queue) : queue(queue)
	{
	}

	void set_rate(uint64_t rate)
	{
		rate_bps = rate;
	}

	void arrive(uint32_t bytes)
	{
		queue->Enqueue(Create<Item>(bytes));
		if (!busy)
			serve();
	}

	Time waited;

private:
	void serve()
	{
		busy = queue->GetNPackets() > 0;
		if (!busy)
			return;
		const Ptr<QueueDiscItem> item = queue->Dequeue();
		const uint64_t bits = 8 * item->GetSize();
		waited += Simulator::Now() - item->GetTimeStamp();
		Simulator::Schedule(NanoSeconds(1e9 * bits / rate_bps), &Server::serve, this);
	}

	Ptr<QueueDisc> queue;
	uint64_t rate_bps = 0;
	bool busy = false;
};

struct Red {
	long long limit, min, max;
	double probability, weight;
	long long mean;
	int runs;
};

static void random_early_detection(const Red &red, const std::vector<Event> &events)
{
	for (int run = 1; run <= red.runs; run++) {
		RngSeedManager::SetRun(run);
		Ptr<RedQueueDisc> queue = CreateObject<RedQueueDisc>();
		queue->SetMaxSize(QueueSize(QueueSizeUnit::BYTES, red.limit));
		queue->SetTh(red.min, red.max);
		queue->SetAttribute("LInterm", DoubleValue(1 / red.probability));
		queue->SetAttribute("QW", DoubleValue(red.weight));
		queue->SetAttribute("MeanPktSize", UintegerValue(red.mean));
		/* Linux has neither: it drops all from MAX on, and waits for nothing after a drop. */
		queue->SetAttribute("Gentle", BooleanValue(false));
		queue->SetAttribute("Wait", BooleanValue(false));
		queue->AssignStreams(0);
		queue->Initialize();
		Server server(queue);
		for (const Event &event : events) {
			if (event.is_packet)
				Simulator::Schedule(NanoSeconds(event.time_ns), &Server::arrive, &server,
						    static_cast<uint32_t>(event.value));
			else
				Simulator::Schedule(NanoSeconds(event.time_ns), &Server::set_rate, &server, event.value);
		}
		Simulator::Run();
		const QueueDisc::Stats &stats = queue->GetStats();
		std::printf("%u %u %lld\n",
			    stats.GetNDroppedPackets(RedQueueDisc::UNFORCED_DROP) +
				    stats.GetNDroppedPackets(RedQueueDisc::FORCED_DROP),
			    stats.GetNDroppedPackets(QueueDisc::INTERNAL_QUEUE_DROP),
			    static_cast<long long>(server.waited.GetNanoSeconds()));
		Simulator::Destroy();
	}
}

int main()
{
	char word[16];
	long long limit;
	Red red;

	if (std::scanf("%15s", word) != 1)
		return 1;
	if (!std::strcmp(word, "queue") && std::scanf("%lld", &limit) == 1)
		drop_tail(limit, read_events());
	else if (!std::strcmp(word, "red") &&
		 std::scanf("%lld %lld %lld %lf %lf %lld %d", &red.limit, &red.min, &red.max, &red.probability, &red.weight,
			    &red.mean, &red.runs) == 7)
		random_early_detection(red, read_events());
	else
		return 1;
	return 0;
}
