"""A conversation of two turns as the stock model has it: everything from scratch for every answer."""

import torch


def answered(model, ids, new, stops):
    """The stock model's own greedy answer to ``ids``, without the token that ends it."""
    given = torch.tensor([ids])
    made = model.generate(
        given,
        attention_mask=torch.ones_like(given),
        max_new_tokens=new,
        do_sample=False,
        pad_token_id=0,
        eos_token_id=stops,
    )[0, len(ids) :].tolist()
    return made[:-1] if made[-1] in stops else made


def conversation(model, ids, asked, new, stops):
    """Both answers; the second is to the prompt, the first answer and the tokens ``asked``, read as one text."""
    first = answered(model, ids, new, stops)
    return first, answered(model, [*ids, *first, *asked], new, stops)
