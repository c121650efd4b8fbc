/*
 * A drop-tail queue and a serial link as ns-3 has them, for arrivals that are known: who was dropped, who left when.
 *
 * Standard input, times in ns and in order of time:
 *   queue BYTES               once, first: what the queue holds
 *   rate TIME BIT/S           the link's rate from then on
 *   packet TIME BYTES         an arrival; at layer 2, as the link carries it
 * Standard output, one line for each packet in order: when it had left the link, or -1.
 *
 * ns-3's point-to-point device takes the packet in service out of its queue, as a real one does. A change of its rate
 * is for the packets that begin from then on.
 */
#include <cstdint>
#include <cstdio>
#include <string>
#include <unordered_map>
#include <vector>
#include "ns3/data-rate.h"
#include "ns3/drop-tail-queue.h"
#include "ns3/mac48-address.h"
#include "ns3/node.h"
#include "ns3/nstime.h"
#include "ns3/packet.h"
#include "ns3/point-to-point-channel.h"
#include "ns3/point-to-point-net-device.h"
#include "ns3/simulator.h"

using namespace ns3;

/* What a point-to-point device puts ahead of a packet (RFC 1661 §2): a part of the layer-2 length here. */
static const uint32_t PPP = 2;

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

int main()
{
	Ptr<Node> nodes[2] = {CreateObject<Node>(), CreateObject<Node>()};
	Ptr<PointToPointNetDevice> ends[2];
	Ptr<PointToPointChannel> channel = CreateObject<PointToPointChannel>();
	Ptr<DropTailQueue<Packet>> queue = CreateObject<DropTailQueue<Packet>>();
	char word[16];
	long long time, value;

	if (std::scanf("queue %lld", &value) != 1)
		return 1;
	queue->SetMaxSize(QueueSize(QueueSizeUnit::BYTES, value));
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
	while (std::scanf("%15s %lld %lld", word, &time, &value) == 3) {
		if (std::string(word) == "rate") {
			Simulator::Schedule(NanoSeconds(time), &set_rate, static_cast<uint64_t>(value));
		} else {
			Simulator::Schedule(NanoSeconds(time), &arrive, departures.size(), static_cast<uint32_t>(value));
			departures.push_back(-1);
		}
	}
	Simulator::Run();
	for (int64_t departure : departures)
		std::printf("%lld\n", static_cast<long long>(departure));
	Simulator::Destroy();
	return 0;
}
